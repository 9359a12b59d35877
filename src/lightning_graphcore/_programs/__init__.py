"""The programs of each stage: compiled as calls need them, trained, and kept in checkpoints."""
