// What a Sync waits for. Part of openipu, written independently.
#ifndef openipu_poplar_SyncType_hpp
#define openipu_poplar_SyncType_hpp

namespace poplar {
enum class SyncType { INTERNAL, EXTERNAL, GLOBAL };
}

#endif
