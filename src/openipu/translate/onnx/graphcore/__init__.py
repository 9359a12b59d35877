"""The ops of the domain `ai.graphcore`, which PopART adds to ONNX, by family."""
