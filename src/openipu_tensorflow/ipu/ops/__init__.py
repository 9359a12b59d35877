"""`ipu.ops`: the same modules as at the top."""
