"""Functions as files that run by themselves: traced and written by one process, started and called by another."""
