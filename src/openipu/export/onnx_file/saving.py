"""Writes ONNX models into a folder.

In: models, and the name of the first. Out: files; one whose weights are too large for a protocol buffer has them in a
file of their own beside it.
"""

from __future__ import annotations

from pathlib import Path

from openipu.export.onnx_file.models import OnnxGraph

LARGEST_FILE = 2_000_000_000  # bytes; a protocol buffer ends at 2 GiB


def write_onnx_files(models: dict[str, OnnxGraph], folder: Path, name: str) -> dict[str, Path]:
    """Each model in a file: `model.onnx`, and `model.update.onnx` for an update."""
    import onnx

    written = {}
    for title, graph in models.items():
        path = folder / (f"{Path(name).stem}.{title}.onnx" if title else name)
        tensors = graph.model.graph.initializer
        if sum(len(tensor.raw_data) for tensor in tensors) > LARGEST_FILE:
            onnx.save_model(
                graph.model,
                str(path),
                save_as_external_data=True,
                all_tensors_to_one_file=True,
                location=f"{path.name}.data",
                size_threshold=1024,
            )
        else:
            path.write_bytes(graph.model.SerializeToString())
        written[title] = path
    return written
