"""The optimizer of an executor: structure, values, state, and their names in a checkpoint."""
