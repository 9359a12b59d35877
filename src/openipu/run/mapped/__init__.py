"""The batched engine of programs whose tensors and vertices were placed by hand."""

from openipu.run.mapped.engine import MappedEngine
from openipu.run.mapped.shared import find_shared_memory

__all__ = [
    "MappedEngine",
    "find_shared_memory",
]
