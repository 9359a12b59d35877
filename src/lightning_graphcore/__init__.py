"""Lightning on IPUs: `Trainer(accelerator="ipu")`, after `import lightning_graphcore` or under `openipu run`.

In: nothing. Out: `IPUAccelerator`, `IPUStrategy`, `IPUPrecision` and the callback `IPUMetrics` for the Lightning that
the program uses, and the name "ipu" known to its `Trainer`. Importing this package imports no
Lightning: it waits for the program to do so.
"""

from __future__ import annotations

from typing import Any

from lightning_graphcore._registration.arrival import use_ipu_by_default, watch_imports

__version__ = "0.1.0"  # of the interface that this package follows
__all__ = ["IPUAccelerator", "IPUMetrics", "IPUPrecision", "IPUStrategy", "use_ipu_by_default"]

_CLASSES = ("IPUAccelerator", "IPUMetrics", "IPUPrecision", "IPUStrategy")


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        from lightning_graphcore._registration.front_end import find_class

        return find_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


watch_imports()
