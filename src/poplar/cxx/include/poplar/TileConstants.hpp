// Constants of a tile that codelets use. Part of openipu.
#ifndef openipu_poplar_TileConstants_hpp
#define openipu_poplar_TileConstants_hpp

#define CTXT_WORKERS 6
#define CTXT_TOTAL 7

#endif
