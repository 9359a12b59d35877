"""A session for one task, with its streams and its state."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import popdist
import popxl
from popxl_addons.checkpoints import Checkpoint, ReportMissing, Resumable, report_missing
from popxl_addons.memory_maps import initialise_memmap_dir_from_checkpoint
from popxl_addons.named_tensors import NamedTensorData, NamedTensors
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.utils import timer

__all__ = ["TaskSession", "initialise_memmap_dir_from_checkpoint", "write_variables_pb"]

Array = np.ndarray[Any, Any]
ONLINE = "wandb://"


def write_variables_pb(session: popxl.Session, weights: Mapping[popxl.Variable, Array]) -> None:
    """Write variables."""
    session.write_variables_data(dict(weights))


class TaskSession(popxl.Session):
    """A session that knows its input and output streams and, by name, the variables that are the task's state.

    It counts its runs, saves and loads checkpoints, and takes the state of another session.
    """

    def __init__(
        self,
        inputs: InputStreams | Iterable[popxl.HostToDeviceStream],
        outputs: OutputStreams | Iterable[popxl.DeviceToHostStream],
        state: NamedTensors,
        max_checkpoints: int = 1,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        with timer("compilation"):
            super().__init__(*args, **kwargs)
        self.inputs = inputs if isinstance(inputs, InputStreams) else InputStreams.from_streams(inputs)
        self.outputs = outputs if isinstance(outputs, OutputStreams) else OutputStreams.from_streams(outputs)
        self.state = state
        self.session_state: dict[str, Any] = {"steps": 0}
        self._dataloader: Resumable | None = None
        self._checkpoints: deque[str] = deque()
        self._max_checkpoints = max_checkpoints

    @property
    def dataloader(self) -> Resumable | None:
        """The data loader whose state belongs to checkpoints."""
        if self._dataloader is None:
            logging.warning("There is no data loader: a checkpoint cannot say where in the data training stopped.")
        return self._dataloader

    @dataloader.setter
    def dataloader(self, dl: Resumable) -> None:
        if not (hasattr(dl, "save") and hasattr(dl, "resume")):
            raise ValueError("a data loader of a task has methods `save` and `resume`")
        self._dataloader = dl

    def run(self, inputs: Any = None, downcast_inputs: bool = True) -> Any:
        """Run once; ``session_state["steps"]`` counts."""
        self.session_state["steps"] += 1
        return super().run(inputs, downcast_inputs)

    def add_session_state_info(self, info: Mapping[str, Any]) -> None:
        """Further facts for checkpoints, which JSON can hold."""
        self.session_state.update(info)

    def get_named_tensors_data(self) -> NamedTensorData:
        """The values of the state, by name."""
        variables = self._variables()
        values = self.get_tensors_data(variables.values())
        return NamedTensorData.from_dict({name: values[t] for name, t in variables.items()})

    def _variables(self) -> dict[str, popxl.Variable]:
        return {name: t for name, t in self.state.to_dict().items() if isinstance(t, popxl.Variable)}

    def load_from_session(self, src: TaskSession, report_missing: ReportMissing = "none") -> None:
        """Take the values of another session's state, for the names that both have."""
        _report(src.state.keys_flat(), self.state.keys_flat(), report_missing)
        own, other = self._variables(), src._variables()
        values = src.get_tensors_data(other.values())
        self.write_variables_data({own[name]: values[t] for name, t in other.items() if name in own})

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write a checkpoint; the oldest of more than ``max_checkpoints`` goes. ``wandb://name`` is an artifact.

        All instances of a job take part, and the first one writes.
        """
        with timer("reading the state"):
            state = self.get_named_tensors_data().to_dict()
        if popdist.getInstanceIndex() != 0:
            return
        with timer(f"saving {checkpoint_dir}"):
            if checkpoint_dir.startswith(ONLINE):
                import wandb

                artifact = wandb.Artifact(name=checkpoint_dir.removeprefix(ONLINE), type="checkpoints")
                with tempfile.TemporaryDirectory() as folder:
                    Checkpoint(folder).save(state, self.session_state, self.dataloader)
                    artifact.add_dir(folder)
                wandb.log_artifact(artifact)
                return
            if len(self._checkpoints) >= self._max_checkpoints:
                shutil.rmtree(self._checkpoints.popleft(), ignore_errors=True)
            Checkpoint(checkpoint_dir).save(state, self.session_state, self.dataloader)
            self._checkpoints.append(checkpoint_dir)

    def load_checkpoint(
        self, checkpoint_dir: str, report_missing: ReportMissing = "warn", skip_memmap: bool = False
    ) -> None:
        """Write a checkpoint's values to the variables of the same names, and resume data loader and counts.

        ``skip_memmap``: variables that live in mapped files stay as those are.
        """
        with timer(f"loading {checkpoint_dir}"):
            if checkpoint_dir.startswith(ONLINE):
                import wandb

                name = checkpoint_dir.removeprefix(ONLINE)
                checkpoint_dir = wandb.use_artifact(name, type="checkpoints").download()
            checkpoint = Checkpoint(checkpoint_dir)
            variables = self._variables()
            mapped = {name: t._memmap_arr for name, t in variables.items() if t._memmap_arr is not None}
            if skip_memmap:
                variables = {name: t for name, t in variables.items() if name not in mapped}
                mapped = {}
            values = checkpoint.load_model(variables, mapped, report_missing)
            self.write_variables_data({variables[name]: value for name, value in values.items()})
            if (dataloader := self.dataloader) is not None:
                dataloader.resume(filename=str(checkpoint.dataloader))
            loaded = checkpoint.load_session()
            _report(loaded, self.session_state, report_missing)
            self.session_state = loaded

    def wandb_histogram(self, name: str, step: int, data: Array) -> None:
        """Log the distribution of values, and how many are not finite."""
        import wandb

        flat = data.flatten().astype(np.float32)
        finite = np.isfinite(flat)
        histogram = wandb.Histogram(flat[finite].tolist())
        wandb.log({f"{name}:histogram": histogram, f"{name}:not_finite": int((~finite).sum())}, step=step)

    def wandb_variable_histograms(self, step: int = 0) -> None:
        """The same for all variables."""
        for variable, value in self.get_tensors_data(self.ir.main_graph.variables).items():
            self.wandb_histogram(variable.name, step, value)


_report = report_missing
