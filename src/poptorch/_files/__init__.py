"""What is written to files and read back: executables, checkpoints, the cache."""
