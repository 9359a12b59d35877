"""ONNX ops by family."""
