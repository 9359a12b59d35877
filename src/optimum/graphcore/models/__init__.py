"""Pipelined models, one package for each family. `to_pipelined` imports the family that a model belongs to."""
