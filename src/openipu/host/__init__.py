"""Functions that run on the host beside a graph: decoding, sampling, printing."""
