"""`IPUConfig`: the options of an IPU system, as a tree.

In: what a script sets. Out: an object that `configure_ipu_system` checks and turns into devices. What each option does
here stands in `effects.py`.
"""

from __future__ import annotations

import typing

from openipu_tensorflow.ipu.configuration.base import ConfigBase, deprecate_config_attribute
from openipu_tensorflow.ipu.configuration.enums import (
    DeviceConnectionType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from openipu_tensorflow.ipu.configuration.message import Message, build_message


class _Convolutions(ConfigBase):
    def __init__(self) -> None:
        """Options of the library for convolutions, by name: availableMemoryProportion, partialsType and others."""
        self.poplar_options: dict = {}  # type: ignore[type-arg]


class _Matmuls(ConfigBase):
    def __init__(self) -> None:
        """Plan forward and backward products alike."""
        self.clear_pass_type: bool = False
        """Options of the library for products, by name: availableMemoryProportion, partialsType and others."""
        self.poplar_options: dict = {}  # type: ignore[type-arg]


class _Slices(ConfigBase):
    def __init__(self) -> None:
        """Options of the library for slices, by name."""
        self.poplar_options: dict = {}  # type: ignore[type-arg]


class _Pooling(ConfigBase):
    def __init__(self) -> None:
        """Options of the library for pooling, by name."""
        self.poplar_options: dict = {}  # type: ignore[type-arg]


class _DeviceConnection(ConfigBase):
    def __init__(self) -> None:
        """When to attach to the IPUs."""
        self.type: DeviceConnectionType = DeviceConnectionType.ALWAYS
        """Which IPU to compile for without attaching to one: ipu1, ipu2 or ipu21."""
        self.version: str = ""
        """Whether programs that are compiled without attaching may use remote buffers."""
        self.enable_remote_buffers: bool = False


class _MultiReplicaDistribution(ConfigBase):
    def __init__(self) -> None:
        """The number of this process, from 0."""
        self.process_index: int = 0
        """How many processes share the replicas of one program; 0 and 1 mean this one alone."""
        self.process_count: int = 0


class _Experimental(ConfigBase):
    def __init__(self) -> None:
        """Rearrange what is copied to and from the host on the host."""
        self.always_rearrange_copies_on_the_host: bool = False
        """Keep host embeddings in remote buffers."""
        self.enable_remote_buffer_embedding: bool = False
        """Keep random numbers the same over changes of a program."""
        self.enable_prng_stability: bool = False
        """Several processes that run one replicated program."""
        self.multi_replica_distribution = _MultiReplicaDistribution()


class _FloatingPointBehaviour(ConfigBase):
    def __init__(self) -> None:
        """Stop at an operation that is not defined, such as 0 / 0."""
        self.inv: bool = False
        """Stop at a division by zero."""
        self.div0: bool = False
        """Stop at a result that is too large."""
        self.oflo: bool = False
        """Round half results by chance; a bool is understood as ON or OFF."""
        self.esr: typing.Union[StochasticRoundingBehaviour, bool] = StochasticRoundingBehaviour.OFF  # noqa: UP007
        """A half result that is too large becomes NaN, not the largest number."""
        self.nanoo: bool = False
        """All of the above."""
        self.set_all: bool = False


class _IoTiles(ConfigBase):
    def __init__(self) -> None:
        """Tiles of each IPU that are set aside for streams of the host."""
        self.num_io_tiles: int = 0
        """Put ops that only move data of the host onto these tiles."""
        self.place_ops_on_io_tiles: bool = False
        """How much of their memory such ops may use."""
        self.available_memory_proportion: float = 0.9


class _IpuModel(ConfigBase):
    def __init__(self) -> None:
        """Compile the code of vertices for the model as for an IPU."""
        self.compile_ipu_code: bool = True
        """How many tiles an IPU of the model has; 0 for all."""
        self.tiles_per_ipu: int = 0
        """Specify the IPU version to be used by the model: ipu1, ipu2 or ipu21."""
        self.version: str = "ipu2"


class _NormsExperimental(ConfigBase):
    def __init__(self) -> None:
        """How many replicas share the statistics of a batch norm."""
        self.distributed_batch_norm_replica_group_size: int = 1


class _Norms(ConfigBase):
    def __init__(self) -> None:
        """Compute the mean first, and the variance from what differs from it."""
        self.use_stable_statistics: bool = False
        """Options of norms that may change."""
        self.experimental = _NormsExperimental()


class _Math(ConfigBase):
    def __init__(self) -> None:
        """Allow simplifications that are not exact for infinities and NaN."""
        self.fast: bool = False
        """Replace small products by element-wise ops."""
        self.dot_strength: bool = True


@deprecate_config_attribute("enable_fast_math", "use optimizations.math.fast instead.")
class _Optimizations(ConfigBase):
    def __init__(self) -> None:
        """Simplifications of arithmetic."""
        self.math = _Math()
        """Have the next data ready on the host before a program asks for them."""
        self.prefetch_data_streams: bool = True
        """Look up several embeddings that share a table at once."""
        self.combine_embedding_lookups: bool = False
        """Multiply several matrices with the same one at once."""
        self.combine_matmuls: bool = False
        """Share the code of equal parts of a program."""
        self.enable_graph_outlining: bool = True
        """Copy the tensors of an infeed at once."""
        self.merge_infeed_io_copies: bool = True
        """Bytes of cross-replica sums that may be gathered into one."""
        self.maximum_cross_replica_sum_buffer_size: int = 0
        """Bytes of reduce-scatters that may be gathered into one."""
        self.maximum_reduce_scatter_buffer_size: int = 0
        """Bytes of copies between IPUs that may be gathered into one."""
        self.maximum_inter_ipu_copies_buffer_size: int = 0
        """Bytes of exchanges with the host that may be gathered into one."""
        self.maximum_send_recv_cluster_size: int = 0
        """Bytes of reductions that may be gathered into one."""
        self.maximum_reduce_many_buffer_size: int = 0
        """Bytes of all-gathers that may be gathered into one."""
        self.maximum_all_gather_buffer_size: int = 0
        """The smallest tensor, in bytes, that may be kept outside the IPU."""
        self.minimum_remote_tensor_size: int = 128
        """Whether remote buffers of the same shape become one."""
        self.merge_remote_buffers: MergeRemoteBuffersBehaviour = MergeRemoteBuffersBehaviour.IF_BENEFICIAL
        """Simplify gathers of embeddings."""
        self.enable_gather_simplifier: bool = True
        """The size of a block when triangular systems are solved; 0 for the compiler's choice."""
        self.triangular_solve_expander_block_size: int = 0
        """The size of a block in Cholesky factorisations; 0 for the compiler's choice."""
        self.cholesky_block_size: int = 0
        """The older name of math.fast."""
        self.enable_fast_math: bool = False
        """Replace dynamic slices whose places are known by static ones."""
        self.enable_dynamic_slice_replacement: bool = True


class _Scheduling(ConfigBase):
    def __init__(self) -> None:
        """How ops are put into an order."""
        self.algorithm: SchedulingAlgorithm = SchedulingAlgorithm.CHOOSE_BEST
        """How far LOOK_AHEAD looks."""
        self.maximum_scheduler_lookahead_depth: int = 5
        """How many orders LOOK_AHEAD compares."""
        self.maximum_scheduler_search_space_size: int = 64


class IPUConfig(ConfigBase):
    """The options of an IPU system. Set attributes, then call `configure_ipu_system()`."""

    def __init__(self) -> None:
        """Make activations again in backward instead of keeping them."""
        self.allow_recompute: bool = False
        """In which order the IPUs of a device are numbered."""
        self.selection_order: SelectionOrder = SelectionOrder.AUTO
        """Where compiled programs are written for other runtimes."""
        self.serialization_output_folder: str = ""
        """Options of the engine, by name, such as those of reports (autoReport.all)."""
        self.compilation_poplar_options: dict = {}  # type: ignore[type-arg]
        """Options of the collectives between IPUs, by name."""
        self.gcl_poplar_options: dict = {}  # type: ignore[type-arg]
        """Configure the IPUs to be used by the TensorFlow devices: how many for each one, any that are free."""
        self.auto_select_ipus: typing.Union[int, typing.List[int], typing.Tuple[int, ...]] = []  # noqa: UP006, UP007
        """As auto_select_ipus, but by their numbers."""
        self.select_ipus: typing.Union[int, typing.List[int], typing.Tuple[int, ...]] = []  # noqa: UP006, UP007
        """Convolutions."""
        self.convolutions = _Convolutions()
        """How and when to attach to IPUs."""
        self.device_connection = _DeviceConnection()
        """Options that may change."""
        self.experimental = _Experimental()
        """What happens at the limits of floating point, and how half is rounded."""
        self.floating_point_behaviour = _FloatingPointBehaviour()
        """Tiles for streams of the host."""
        self.io_tiles = _IoTiles()
        """The model of an IPU that --use_ipu_model of TF_POPLAR_FLAGS asks for."""
        self.ipu_model = _IpuModel()
        """Matrix products."""
        self.matmuls = _Matmuls()
        """Norms."""
        self.norms = _Norms()
        """What the compiler may do."""
        self.optimizations = _Optimizations()
        """Pooling."""
        self.pooling = _Pooling()
        """The order of ops."""
        self.scheduling = _Scheduling()
        """Slices."""
        self.slices = _Slices()
        self._finalize_base_config()

    def _create_protobuf(self) -> Message:
        """Check what options must agree on, and write them down by the names of the driver."""
        return build_message(self)

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """Make the IPU devices that this configuration describes."""
        from openipu_tensorflow.ipu.configuration.devices import configure_ipu_system

        configure_ipu_system(self, device)
