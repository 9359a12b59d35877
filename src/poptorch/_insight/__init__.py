"""What users are told of a compiled program: graphs, names, counters, advice."""
