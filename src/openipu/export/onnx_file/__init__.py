"""A program as a plain ONNX file."""
