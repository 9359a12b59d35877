"""Is imported by every Python of a run, before its program: declares what a wheel of another build lacks, and at the
end writes down what was planned.

In: OPENIPU_APPLICATION_PLANS, a file to write. Out: a line of JSON there for each program that the process compiled.
OPENIPU_APPLICATION_FOLDERS: names of folders in the current one that are packages of the program, as `datasets`.
With OPENIPU_APPLICATION_LOSSES, for programs that show no loss: a line "loss of a call: …" for each training step, or
for each run of a session that returns numbers alone.
OPENIPU_APPLICATION_TENSORFLOW: the version that TensorFlow says it has, for programs that refuse to start with another.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.util
import json
import os
import sys

# TorchVision's CPU wheels are not on PyPI; those that are there hold these ops compiled for CUDA.
VISION_OPS = ("nms", "qnms")
HMC = "tensorflow_probability.python.mcmc.hmc"


def write_plans() -> None:
    history = getattr(sys.modules.get("openipu.history"), "history", None)
    path = os.environ.get("OPENIPU_APPLICATION_PLANS")
    if history is None or not path:
        return
    with open(path, "a", encoding="utf-8") as file:
        for program in history.compiled:
            line = {
                "name": program.name,
                "system": program.system,
                "fits": program.fit.fits,
                "samples_per_second": program.timing.samples_per_second,
                "guessed": program.guessed_share,
            }
            file.write(json.dumps(line) + "\n")


def show_losses(name: str) -> None:
    """Makes training models of PopTorch print the loss that they return: a tensor, or the last one of several."""
    executor = sys.modules[name].PoplarExecutor
    call = executor.__call__

    def call_and_show(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        returned = call(self, *args, **kwargs)
        loss = returned[-1] if isinstance(returned, (tuple, list)) else returned
        if self._training and hasattr(loss, "mean"):
            print(f"loss of a call: {loss.float().mean().item():.6g}", flush=True)
        return returned

    executor.__call__ = call_and_show


def adapt_tensorflow(name: str) -> None:
    """TensorFlow 1's names; its version and numbers that its sessions return, if that is asked for. Keras takes
    generated data for its downloads."""
    from packages_of_time import accept_generated_files

    from openipu_tensorflow import tf1

    tf1.activate(name)
    accept_generated_files()
    version = os.environ.get("OPENIPU_APPLICATION_TENSORFLOW")
    if version:
        sys.modules["tensorflow"].__version__ = version  # type: ignore[attr-defined]
    if os.environ.get("OPENIPU_APPLICATION_LOSSES"):
        show_results()


def show_results() -> None:
    """Makes sessions of TensorFlow print a number that they are asked for, the first where they are asked for more; of
    a row of numbers, which an outfeed delivers, the mean."""
    from tensorflow.python.client.session import BaseSession

    run = BaseSession.run

    def run_and_show(self, fetches, *args, **kwargs):  # type: ignore[no-untyped-def]
        returned = run(self, fetches, *args, **kwargs)
        first = returned[0] if isinstance(returned, (tuple, list)) and returned else returned
        if len(getattr(first, "shape", (0, 0))) < 2 and first.dtype.kind == "f":
            print(f"loss of a call: {float(first.mean()):.6g}", flush=True)
        return returned

    BaseSession.run = run_and_show


class DeclareBefore(importlib.abc.MetaPathFinder):
    """Declares the ops once, when torchvision is about to be imported."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            library = torch.library.Library("torchvision", "DEF")
            for name in VISION_OPS:
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            library.impl("nms", suppress, "CPU")
            sys.modules["torchvision_ops_declared"] = library  # type: ignore[assignment]
        return


def restore_numpy_names() -> None:
    """Names that NumPy dropped in 1.24 and 2.0; those applications were written for 1.17 to 1.23."""
    import numpy

    numpy.Inf = numpy.inf  # type: ignore[attr-defined]
    for kind in (int, float, object):
        setattr(numpy, kind.__name__, kind)
    if "bool" not in vars(numpy):
        numpy.bool = bool  # type: ignore[attr-defined]
    if "twodim_base" not in vars(numpy.lib):
        from numpy.lib import _twodim_base_impl

        sys.modules["numpy.lib.twodim_base"] = _twodim_base_impl


def restore_python_names() -> None:
    """Names that left `collections` in Python 3.10."""
    import collections
    import collections.abc

    for name in ("Callable", "Iterable", "Mapping", "MutableMapping", "Sequence"):
        setattr(collections, name, getattr(collections.abc, name))


def prefer_own_folders(names: list[str]) -> None:
    """Let a folder of the application be imported that has the name of an installed package, which it did not have."""
    from types import ModuleType

    for name in names:
        module = ModuleType(name)
        module.__path__ = [os.path.join(os.getcwd(), name)]
        sys.modules[name] = module


def suppress(boxes, scores, threshold):  # type: ignore[no-untyped-def]
    """Indices of the boxes that overlap no better one by more than `threshold`, best first."""
    import torch

    order = scores.argsort(descending=True)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    while order.numel():
        best, order = order[0], order[1:]
        kept.append(best)
        low, high = torch.maximum(boxes[best, :2], boxes[order, :2]), torch.minimum(boxes[best, 2:], boxes[order, 2:])
        common = (high - low).clamp(min=0).prod(1)
        order = order[common / (areas[best] + areas[order] - common) <= threshold]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.long)


if os.environ.get("OPENIPU_APPLICATION_PLANS"):
    atexit.register(write_plans)
    restore_numpy_names()
    restore_python_names()
    prefer_own_folders(os.environ.get("OPENIPU_APPLICATION_FOLDERS", "").split())
    import openipu_startup

    openipu_startup.EXTENSIONS[HMC] = "packages_of_time:restore_step_size_updates"
    openipu_startup.EXTENSIONS["torch_geometric.data.temporal"] = "packages_of_time:restore_batches"
    openipu_startup.EXTENSIONS["scipy.spatial"] = "packages_of_time:restore_jobs"
    if os.environ.get("OPENIPU_APPLICATION_LOSSES"):
        openipu_startup.EXTENSIONS["poptorch._poplar_executor"] = "sitecustomize:show_losses"
    openipu_startup.EXTENSIONS["tensorflow"] = "sitecustomize:adapt_tensorflow"  # where OPENIPU_TF1 is set
    sys.meta_path.insert(0, DeclareBefore())
