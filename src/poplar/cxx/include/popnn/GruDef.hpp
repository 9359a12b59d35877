// Gates of a GRU cell. Part of openipu, written independently.
#ifndef openipu_popnn_GruDef_hpp
#define openipu_popnn_GruDef_hpp

enum BasicGruCellUnit {
  BASIC_GRU_CELL_RESET_GATE, BASIC_GRU_CELL_UPDATE_GATE, BASIC_GRU_CELL_CANDIDATE, BASIC_GRU_CELL_NUM_UNITS
};

#endif
