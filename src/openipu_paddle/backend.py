"""`core.IpuBackend`: the one backend of a process, as scripts reach for it.

In: calls by Paddle's names. Out: the same on the program that was compiled last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openipu_paddle.devices import release_ipus
from openipu_paddle.running import IpuProgram


class IpuBackend:
    """Forwards to the current program."""

    _instance: IpuBackend | None = None

    def __init__(self) -> None:
        self.current: IpuProgram | None = None
        self.scope: Any = None
        self.strategy: Any = None

    @classmethod
    def get_instance(cls) -> IpuBackend:
        """The backend of this process."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def set_scope(self, scope: Any) -> None:
        """Where the variables of the next program are."""
        self.scope = scope

    def set_ipu_strategy(self, strategy: Any) -> None:
        """The options of the next program."""
        self.strategy = strategy

    def weights_to_host(self) -> None:
        """Copy weights and optimizer state of the current program to its scope."""
        if self.current is not None:
            self.current.weights_to_host()

    def detach(self) -> None:
        """Give the IPUs back."""
        release_ipus()

    def reset(self) -> None:
        """Forget the current program."""
        self.detach()
        self.current = None

    def save_model_proto(self, path: str) -> None:
        """Write the current program as ONNX, with the weights that the device has."""
        if self.current is None or self.current.compiled is None:
            raise RuntimeError("There is no compiled program to save: call IpuCompiledProgram.compile() first.")
        self.current.save(Path(path))
