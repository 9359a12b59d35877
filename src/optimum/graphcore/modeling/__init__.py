"""The parts of `optimum.graphcore.modeling_utils`, which names what is public."""
