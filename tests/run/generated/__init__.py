"""Generated models, compared with eager PyTorch: one pattern each for the passes of the engine, in random context."""
