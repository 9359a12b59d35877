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


def _find_file(value: Array) -> Path | None:
    """The file that an array is mapped from, itself or through a view."""
    mapped = value if isinstance(value, np.memmap) else value.base
    file = mapped.filename if isinstance(mapped, np.memmap) else None
    return None if file is None else Path(file)


class Checkpoint:
    """One folder: ``model/<variable>.npz`` or copies of mapped files, ``dataloader.bin``, ``session_info.json``."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()
        self.model = self.folder / "model"
        self.dataloader = self.folder / "dataloader.bin"
        self.session = self.folder / "session_info.json"

    def save(self, state: Mapping[str, Array], session_state: Mapping[str, Any], dataloader: Resumable | None) -> None:
        """Write everything. A variable that lives in a mapped file is copied as that file."""
        self.model.mkdir(parents=True, exist_ok=True)
        for name, value in state.items():
            if (file := _find_file(value)) is not None:
                shutil.copyfile(file, self.model / file.name)
            else:
                np.savez(self.model / f"{name}.npz", **{name: value})  # type: ignore[arg-type]
        if dataloader is not None:
            dataloader.save(str(self.dataloader))
        self.session.write_text(json.dumps(session_state))

    def load_model(self, wanted: Iterable[str], mapped: Mapping[str, Array], method: ReportMissing) -> dict[str, Array]:
        """The values of the variables that are wanted and there; `mapped`: those of them that live in mapped files."""
        names = list(wanted)
        copies = {name: self.model / file.name for name, value in mapped.items() if (file := _find_file(value))}
        copies = {name: copy for name, copy in copies.items() if copy.exists()}
        report_missing({*copies, *(file.stem for file in self.model.glob("*.npz"))}, names, method)
        values = {}
        for name in names:
            file = self.model / f"{name}.npz"
            if name in copies:
                values[name] = np.fromfile(copies[name], mapped[name].dtype).reshape(mapped[name].shape)
            elif file.exists():
                with np.load(file, allow_pickle=False) as arrays:
                    values[name] = arrays[name]
        return values

    def load_session(self) -> dict[str, Any]:
        """The facts of the session; a model without them begins at step 0."""
        return dict(json.loads(self.session.read_text())) if self.session.exists() else {"steps": 0}
