"""A program as a plain PyTorch file: Python that needs torch alone, with its weights beside it."""
