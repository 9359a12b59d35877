"""The batched engine of programs whose tensors and vertices were placed by hand."""
