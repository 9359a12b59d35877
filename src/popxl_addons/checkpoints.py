"""Checkpoints of a task: a file for each variable, the data loader's state, and facts of the session."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

__all__ = ["Checkpoint", "ReportMissing", "report_missing"]

ReportMissing = Literal["none", "warn", "error"]
Array = np.ndarray[Any, Any]


class Resumable(Protocol):
    """A data loader that can be saved and resumed."""

    def save(self, filename: str) -> None: ...

    def resume(self, filename: str) -> None: ...


def report_missing(found: Iterable[str], wanted: Iterable[str], method: ReportMissing) -> None:
    """Say what a checkpoint has too much and too little: by an error, a warning or not at all."""
    there, needed = set(found), set(wanted)
    lines = []
    if there - needed:
        lines.append(f"the checkpoint has what the state has not: {sorted(there - needed)}")
    if needed - there:
        lines.append(f"the checkpoint lacks {sorted(needed - there)}")
    if not lines or method == "none":
        return
    if method == "error":
        raise ValueError("\n".join(lines))
    logging.warning("\n".join(lines))


class Checkpoint:
    """One folder: ``model/<variable>.npz``, ``dataloader.bin``, ``session_info.json``."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()
        self.model = self.folder / "model"
        self.dataloader = self.folder / "dataloader.bin"
        self.session = self.folder / "session_info.json"

    def save(self, state: Mapping[str, Array], session_state: Mapping[str, Any], dataloader: Resumable | None) -> None:
        """Write everything. A variable that lives in a mapped file is copied as that file."""
        self.model.mkdir(parents=True, exist_ok=True)
        for name, value in state.items():
            if isinstance(value.base, np.memmap) and value.base.filename is not None:
                file = Path(value.base.filename)
                shutil.copyfile(file, self.model / file.name)
            else:
                np.savez(self.model / f"{name}.npz", **{name: value})  # type: ignore[arg-type]
        if dataloader is not None:
            dataloader.save(str(self.dataloader))
        self.session.write_text(json.dumps(session_state))

    def load_model(self, wanted: Iterable[str], method: ReportMissing) -> dict[str, Array]:
        """The values of the variables that are wanted and there."""
        names = list(wanted)
        report_missing((file.stem for file in self.model.glob("*.npz")), names, method)
        values = {}
        for name in names:
            file = self.model / f"{name}.npz"
            if file.exists():
                with np.load(file, allow_pickle=False) as arrays:
                    values[name] = arrays[name]
        return values

    def load_session(self) -> dict[str, Any]:
        """The facts of the session; a model without them begins at step 0."""
        return dict(json.loads(self.session.read_text())) if self.session.exists() else {"steps": 0}
