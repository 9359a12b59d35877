"""What users are told of a compiled program: graphs, names, counters, advice, coverage of the original's API."""
