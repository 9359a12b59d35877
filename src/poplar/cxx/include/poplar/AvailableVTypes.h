// Which layouts of vectors a target has: the host's processor has none of the compact pointers. Part of openipu.
#ifndef openipu_poplar_AvailableVTypes_h
#define openipu_poplar_AvailableVTypes_h
#endif
