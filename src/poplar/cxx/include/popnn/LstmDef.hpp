// Gates of an LSTM cell. Part of openipu, written independently.
#ifndef openipu_popnn_LstmDef_hpp
#define openipu_popnn_LstmDef_hpp

enum BasicLstmCellUnit {
  BASIC_LSTM_CELL_FORGET_GATE, BASIC_LSTM_CELL_INPUT_GATE, BASIC_LSTM_CELL_CANDIDATE, BASIC_LSTM_CELL_OUTPUT_GATE,
  BASIC_LSTM_CELL_NUM_UNITS
};

#endif
