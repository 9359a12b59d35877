"""The way out: captured programs as plain ONNX and plain PyTorch, checked against openipu's own results."""

from openipu.export.comparison import Comparison
from openipu.export.exporting import ExportReport, Format, export_program, export_snapshot, take_snapshot
from openipu.export.snapshot import Snapshot, snapshot_executable, snapshot_job

__all__ = [
    "Comparison",
    "ExportReport",
    "Format",
    "Snapshot",
    "export_program",
    "export_snapshot",
    "snapshot_executable",
    "snapshot_job",
    "take_snapshot",
]
