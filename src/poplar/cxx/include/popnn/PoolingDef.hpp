// Kinds of pooling. Part of openipu, written independently.
#ifndef openipu_popnn_PoolingDef_hpp
#define openipu_popnn_PoolingDef_hpp

namespace popnn {

enum class PoolingType { MAX, AVG, SUM };

} // namespace popnn

#endif
