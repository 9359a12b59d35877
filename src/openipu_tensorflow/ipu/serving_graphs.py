"""Models of TensorFlow 1 as SavedModels: exported where graphs are built, and not run at once.

In: a function of tensors, the inputs that it is to have, who gives its variables their values. Out: a folder with its
graph, variables turned into constants, which `tf.saved_model.load` and sessions read; and a function that adds the same
graph to the one that a script works on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_DEFAULT = "serving_default"


@dataclass(frozen=True)
class FirstValues:
    """Where variables of an exported graph get their values from."""

    variable_initializer: Callable[[Any], Any] | None = None  # called with a session
    checkpoint_restore_dir: Any = None


def save_graph(
    run: Callable[..., list[Any]], specs: Sequence[Any], folder: str, names: Sequence[str] | None, first: FirstValues
) -> Callable[..., Any]:
    """Build the graph, give its variables their values, and write it."""
    import tensorflow.compat.v1 as v1

    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        inputs = [v1.placeholder(spec.dtype, spec.shape, name=spec.name) for spec in specs]
        outputs = [v1.identity(tensor) for tensor in run(*inputs)]
        titles = [f"output_{place}" for place in range(len(outputs))] if names is None else list(names)
        if len(titles) != len(outputs):
            raise ValueError(f"The model has {len(outputs)} outputs, and output_names are {titles}.")
        _give_values(session, first)
        frozen = v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), [tensor.op.name for tensor in outputs]
        )
    entered, left = [tensor.name for tensor in inputs], [tensor.name for tensor in outputs]
    _write(
        frozen,
        dict(zip([spec.name for spec in specs], entered, strict=True)),
        dict(zip(titles, left, strict=True)),
        folder,
    )

    def serve(*values: Any) -> list[Any]:
        given = {name: v1.convert_to_tensor(value) for name, value in zip(entered, values, strict=True)}
        return list(v1.import_graph_def(frozen, input_map=given, return_elements=left, name="served"))

    return serve


def _give_values(session: Any, first: FirstValues) -> None:
    """A checkpoint has the last word."""
    import tensorflow.compat.v1 as v1

    if first.checkpoint_restore_dir is not None and not os.path.isdir(os.fspath(first.checkpoint_restore_dir)):
        raise ValueError(f"checkpoint_restore_dir {first.checkpoint_restore_dir!r} is no folder.")
    session.run([v1.global_variables_initializer(), v1.tables_initializer()])
    if first.variable_initializer is not None:
        first.variable_initializer(session)
    if first.checkpoint_restore_dir is None:
        return
    found = v1.train.latest_checkpoint(os.fspath(first.checkpoint_restore_dir))
    if found is None:
        raise ValueError(f"There is no checkpoint in {first.checkpoint_restore_dir!r}.")
    if v1.global_variables():
        v1.train.Saver().restore(session, found)


def _write(definition: Any, entered: dict[str, str], left: dict[str, str], folder: str) -> None:
    import tensorflow.compat.v1 as v1

    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        v1.import_graph_def(definition, name="")
        builder = v1.saved_model.Builder(folder)
        signature = v1.saved_model.predict_signature_def(
            inputs={title: graph.get_tensor_by_name(name) for title, name in entered.items()},
            outputs={title: graph.get_tensor_by_name(name) for title, name in left.items()},
        )
        builder.add_meta_graph_and_variables(
            session, [v1.saved_model.tag_constants.SERVING], signature_def_map={_DEFAULT: signature}
        )
        builder.save()
