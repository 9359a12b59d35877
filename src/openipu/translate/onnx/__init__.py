"""ONNX: files and bytes become a `ForeignGraph`, and a table of ops says what each node is in torch."""
