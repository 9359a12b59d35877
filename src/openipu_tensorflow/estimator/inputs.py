"""Data of an input function, as tensors of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorflow.python.training import session_run_hook

from openipu_tensorflow.estimator.model_fn import ModeKeys


def call_with(function: Callable[..., Any], given: Mapping[str, Any], always: Mapping[str, Any] | None = None) -> Any:
    """Call a function of the user's with those of the arguments that it has."""
    from tensorflow.python.util import function_utils

    names = function_utils.fn_args(function)
    return function(**(always or {}), **{name: value for name, value in given.items() if name in names})


def is_dataset(value: Any) -> bool:
    from tensorflow.python.data.ops import dataset_ops

    return isinstance(value, dataset_ops.DatasetV2)


def read_inputs(returned: Any, mode: str) -> tuple[Any, Any, list[Any]]:
    """Features, labels, and hooks that begin a data set with the session."""
    from tensorflow.python.data.ops import dataset_ops

    hooks: list[Any] = []
    if is_dataset(returned):
        iterator = dataset_ops.make_initializable_iterator(returned)
        hooks.append(DatasetHook(iterator.initializer))
        returned = iterator.get_next()
    return (*split_element(returned, mode), hooks)


def split_element(element: Any, mode: str) -> tuple[Any, Any]:
    """Features and labels of one element; there are no labels for predictions."""
    if not isinstance(element, (list, tuple)):
        return element, None
    if mode == ModeKeys.PREDICT:
        return element[0], None
    if len(element) != 2:
        raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple. Its length is {len(element)}.")
    return element[0], element[1]


class DatasetHook(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """Begins a data set when a session has been made."""

    def __init__(self, initializer: Any) -> None:
        self._initializer = initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._initializer)


class StepReader(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """Which training step the values of a session's variables are from."""

    def __init__(self) -> None:
        self.step = 0

    def begin(self) -> None:
        from tensorflow.python.training import training_util

        self._tensor = training_util.get_global_step().read_value()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.step = int(session.run(self._tensor))
