"""A pytest plugin for the public suites of TensorFlow on IPU: their helpers from the checkout, all else from openipu.

In: `OPENIPU_TENSORFLOW_CHECKOUT`. Out: `tensorflow.python.ipu.test_utils` and `.tests` come from it. What stock
TensorFlow 2.21 lacks and only the suites' own references use is put back here, and so is what their helpers call of the
original's own rooms.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(os.environ["OPENIPU_TENSORFLOW_CHECKOUT"]) / "tensorflow"
ORIGINAL, OURS = "tensorflow.python.ipu", "openipu_tensorflow.ipu"
HELPERS = ("test_utils", "tests")
APART = ("utils_get_config_test",)


class _Alias:
    """The module of another name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for helper in HELPERS:
            if name == f"{OURS}.{helper}":
                return ModuleSpec(name, _Alias(f"{ORIGINAL}.{helper}"), is_package=True)  # type: ignore[arg-type]
            if name.startswith(f"{ORIGINAL}.") and name.endswith(
                "_test"
            ):  # where a folder of the original is a package
                return _find_file(name, ROOT / name.removeprefix("tensorflow.").replace(".", "/"))
            if name == f"{ORIGINAL}.{helper}" or name.startswith(f"{ORIGINAL}.{helper}."):
                return _find_file(name, ROOT / name.removeprefix("tensorflow.").replace(".", "/"))
        return None


def _find_file(name: str, place: Path) -> ModuleSpec | None:
    if not place.is_dir():
        return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
    if (place / "__init__.py").is_file():
        where = [str(place)]
        return importlib.util.spec_from_file_location(name, place / "__init__.py", submodule_search_locations=where)
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(place)]
    return spec


def _put_back() -> None:
    """What the suites import of TensorFlow by places that it has left since, and `initialized_value` of variables."""
    from tensorflow.python.ops import (
        array_ops,
        array_ops_stack,
        cond,
        control_flow_case,
        control_flow_ops,
        functional_ops,
        variables,
        while_loop,
    )

    variables.Variable.initialized_value = lambda self: self.initial_value
    control_flow_ops.cond = cond.cond
    control_flow_ops.while_loop = while_loop.while_loop
    control_flow_ops.case = control_flow_case.case
    functional_ops.partitioned_call = lambda args, f, **settings: f(*args)
    array_ops.stack, array_ops.unstack = array_ops_stack.stack, array_ops_stack.unstack
    sys.modules["tensorflow.python.keras.datasets"] = importlib.import_module("keras.datasets")
    from tensorflow.python import distribute
    from tensorflow.python.distribute import distribute_lib

    distribute.distribution_strategy_context = distribute_lib  # and so is its content
    sys.modules["tensorflow.python.distribute.distribution_strategy_context"] = distribute_lib
    _put_back_estimators()
    if os.environ.get("OPENIPU_TF1") == "1":  # `from tensorflow.python import ops` was that of the framework
        from tensorflow.python import ops
        from tensorflow.python.framework import ops as framework

        for name in ("control_dependencies", "device", "get_default_graph", "convert_to_tensor", "name_scope"):
            setattr(ops, name, getattr(framework, name))


def _put_back_estimators() -> None:
    """A package of its own until TensorFlow 2.15, by whose places some suites import what we have as `tf.estimator`."""
    from tensorflow.python.estimator import model_fn

    keys = ModuleType("tensorflow_estimator.python.estimator.mode_keys")
    keys.ModeKeys = model_fn.ModeKeys  # type: ignore[attr-defined]
    estimators = importlib.import_module("tensorflow.python.estimator")
    for name, module in (("", None), (".python", None), (".python.estimator", estimators)):
        sys.modules["tensorflow_estimator" + name] = module or ModuleType("tensorflow_estimator" + name)
    sys.modules["tensorflow_estimator.python.estimator.model_fn"] = model_fn
    sys.modules["tensorflow_estimator.python.estimator.mode_keys"] = keys


def _name_by_graph() -> None:
    """Keras of TensorFlow 2.6 counted the names of layers anew in each graph; Keras 3 counts them for the process."""
    from keras.src.utils import naming
    from tensorflow.python.framework import ops

    counts: weakref.WeakKeyDictionary[object, Counter[str]] = weakref.WeakKeyDictionary()
    original = naming.uniquify

    def uniquify(name: str) -> str:
        graph = ops.get_default_graph()
        if ops.executing_eagerly_outside_functions():
            return str(original(name))
        own = counts.setdefault(graph, Counter())
        own[name] += 1
        return name if own[name] == 1 else f"{name}_{own[name] - 1}"

    naming.uniquify = uniquify


def _put_in() -> None:
    """Private names of the original that the suites' helpers call before they compare numbers: events of its driver, of
    which there are none, and a list made flat."""
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
    from tensorflow.python.framework import constant_op, dtypes
    from tensorflow.python.ipu.ops import pipelining_ops
    from tensorflow.python.util import nest

    sys.modules.setdefault("popef", ModuleType("popef"))  # a reader of files that are not written here
    gen_ipu_ops.ipu_event_trace = lambda: constant_op.constant([], dtypes.string)
    pipelining_ops._to_flat_list = nest.flatten


def pytest_runtest_setup(item: Any) -> None:
    """The original's build starts each item of these files in a process of its own."""
    if item.path.stem in APART:
        importlib.import_module(f"{OURS}.config").reset_ipu_configuration()


sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
_put_back()
_name_by_graph()
_put_in()
