"""Half precision on a host that computes in float32: where values are widened, and how results are rounded."""
