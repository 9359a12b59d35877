"""Functionalisation: what was written in place becomes a value, with the strides that it had."""
