"""From which sizes on an optimization is worth it: all such numbers, read where a program is built.

Found on an AMD EPYC with 2 cores, AVX-512, 1 MiB of second-level cache a core and 32 MiB of third-level cache, PyTorch
2.13, one and two threads, in November 2026. None of them changes a result beyond the order of sums; on another machine
another number may be faster. Work is counted in multiplications of one call.
"""

# Simplification
FOLDED_CONSTANT_BYTES = 64 << 20  # above, a constant is computed again in each call: it would take memory forever
FILLED_CONSTANT_ELEMENTS = 1 << 10  # the same for equal numbers, which take no reading

# Random numbers
NUMPY_SAMPLE_ELEMENTS = 1 << 15  # up to here NumPy's lower overhead wins over PyTorch's threads

# Activations and losses
GELU_ELEMENTS = 1 << 12  # below, the overhead of the call decides
CROSS_ENTROPY_ELEMENTS = 1 << 16  # below, two operators are as fast
CROSS_ENTROPY_CACHED_BYTES = 1 << 19  # for each thread: rows that stay in the cache from one step to the next

# Memory that is written over
REUSED_ELEMENTS = 1 << 14  # below, it makes no difference
SPARSE_EMBEDDING_ROWS = 4  # rows of a table for each that is looked up: from here on, finding those is worth it

# Matrix products
ONEDNN_WEIGHT_ELEMENTS = 1 << 16
ONEDNN_WORK = 1 << 21  # below, the overhead of the call decides
ONEDNN_ROW_WORK = 1 << 20  # the same for a single row
ONEDNN_ROWS = 2  # a single row reads each weight once, but MKL on AMD's processors uses one thread for it
WEIGHT_GRADIENT_WORK = 1 << 22  # below, the overhead of the call decides
WEIGHT_GRADIENT_DEPTH = 32  # rows of both matrices: with few of them, writing the result takes longest
WEIGHT_GRADIENT_SIDE = 64  # of the result
GEMV_WEIGHT_ELEMENTS = 1 << 14
GEMV_ALL_ELEMENTS = 1 << 22  # of all such weights: what is smaller comes from the cache, however it is read
PACKED_SHARE_OF_HOST = 1 / 8  # of the host's memory: packed copies come on top of the weights
HALF_BLOCK_ELEMENTS = 1 << 20  # columns that stay in the last level of the cache
HALF_BLOCK_COLUMNS = 64  # below, rows are gathered again too often

# Recurrent layers
LSTM_WORK = 1 << 22  # below, nothing is gained that would be worth compiling the kernel
LSTM_HELD_ROWS = 128  # products of inputs that wait for their steps: few, so that they stay in a cache

# Images
POOL_CHANNELS = 16  # from here on, the operator for channels-last images compares whole vectors
NORM_CHANNELS = 8  # below, a transpose costs more than it gains
NORM_PLANE = 128  # pixels of a channel: below, its moments cost more than the usual operator takes
NORM_ELEMENTS = 1 << 15  # below, the overhead of the call decides
CHANNELS_LAST_WORK = 1 << 26  # of all convolutions: below, it makes no difference
CHANNELS_LAST_COPIED = 0.25  # copies at most, as a share of the elements that convolutions compute
CONVOLUTION_VECTOR = 16  # results of a convolution that are computed together
PRODUCT_PIXELS = 8192  # of all images: from here on, a 1 x 1 convolution is slower as a product
PRODUCT_GRADIENT_PIXELS = 512  # the same for the gradient of a filter with more results than channels
PACKED_CONVOLUTION_WORK = 1 << 18  # below, a transpose costs more than it gains
DIRECT_CONVOLUTION_USE = 1.4  # by how much more of each vector must be in use
DIRECT_CONVOLUTION_POOLED_USE = 1.2  # the same where a pool is computed on the way
DIRECT_CONVOLUTION_IMAGE_BYTES = 128 << 10  # of a padded image, which is read once for each few channels of the result
WINOGRAD_COMPILATION_WORK = 1 << 24  # below, nothing is gained that would be worth compiling the kernel
WINOGRAD_WORK = 1 << 22
WINOGRAD_WINDOWS = 24  # below, transforming the filter costs what is gained
WINOGRAD_USE = 0.6  # pixels of all windows that are in use
WINOGRAD_FILTER_BYTES = 12 << 20  # of a transformed filter, which is four times what it was
WINOGRAD_FEW_WINDOWS = 96  # up to here, a filter that is not kept is transformed strip by strip, and then:
WINOGRAD_STRIP_WINDOWS = 12  # fewer windows are worth it,
WINOGRAD_STRIP_FILTER = 1 << 18  # with smaller filters: channels by results
WINOGRAD_GRADIENT_BYTES = 2 << 20  # points of a block of windows, for the gradient of a filter
WINOGRAD_GRADIENT_BLOCK = 64  # windows of such a block, at least

# Updates of parameters
UPDATE_PIECE_ELEMENTS = 1 << 18  # a megabyte: the handful of tensors that a rule works on fits the cache of a core
UPDATED_ALONE_ELEMENTS = 1 << 16  # from here on a parameter gains nothing from an update together with others

# Compiling kernels in the background: seconds of steps before it begins
LARGE_GAIN_SECONDS = 3.0  # steps become several times shorter, with stochastic rounding or in inference
SMALL_GAIN_SECONDS = 20.0  # a few percent, by dropout and its like
