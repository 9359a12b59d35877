"""An estimator: a model function, run in sessions.

In: a model function, an input function. Out: checkpoints and summaries in `model_dir`, metrics, predictions. Estimators
for IPUs build another graph from the same functions (`_build`), and count steps in another way (`_make_stop_hooks`).
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from openipu_tensorflow.estimator.inputs import StepReader, call_with, read_inputs
from openipu_tensorflow.estimator.model_fn import LOSS_METRIC_KEY, EstimatorSpec, ModeKeys, check_hooks
from openipu_tensorflow.estimator.run_config import RunConfig

_logger = logging.getLogger("openipu")


class WarmStartSettings(NamedTuple):
    """Where variables get their first values from."""

    ckpt_to_initialize_from: str
    vars_to_warm_start: Any = ".*"
    var_name_to_vocab_info: Any = None
    var_name_to_prev_var_name: Any = None


class Estimator:
    """Trains, evaluates and predicts with a model function."""

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: Any = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: Any = None,
    ) -> None:
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        if config is not None and not isinstance(config, RunConfig):
            raise ValueError(f"config must be an instance of `RunConfig`, but provided {config!r}.")
        config = RunConfig() if config is None else config
        given = None if model_dir is None else os.fspath(model_dir)
        if given is not None and config.model_dir is not None and given != config.model_dir:
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different values. In constructor: "
                f"{given!r}, in `RunConfig`: {config.model_dir!r}."
            )
        self._model_dir = given or config.model_dir or tempfile.mkdtemp(prefix="estimator-")
        self._config = config.replace(model_dir=self._model_dir)
        self._model_fn = model_fn
        self._params: dict[str, Any] = copy.deepcopy(dict(params or {}))
        self._warm_start = None if warm_start_from is None else _read_settings(warm_start_from)

    @property
    def model_dir(self) -> str:
        return self._model_dir

    @property
    def config(self) -> Any:
        return copy.copy(self._config)

    @property
    def params(self) -> dict[str, Any]:
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        return self._model_fn

    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint in `model_dir`; None where there is none yet."""
        from tensorflow.python.checkpoint import checkpoint_management

        found: str | None = checkpoint_management.latest_checkpoint(self._model_dir)
        return found

    def get_variable_names(self) -> list[str]:
        """Names in the newest checkpoint."""
        from tensorflow.python.training import checkpoint_utils

        self._need_checkpoint()
        return [name for name, _ in checkpoint_utils.list_variables(self._model_dir)]

    def get_variable_value(self, name: str) -> Any:
        """A value in the newest checkpoint."""
        from tensorflow.python.training import checkpoint_utils

        self._need_checkpoint()
        return checkpoint_utils.load_variable(self._model_dir, name)

    def _need_checkpoint(self) -> str:
        found = self.latest_checkpoint()
        if found is None:
            raise ValueError(f"Estimator has not been trained yet: there is no checkpoint in {self._model_dir}.")
        return found

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Any:
        """Train for so many steps more, or up to so many."""
        from tensorflow.python.training import basic_session_run_hooks as stock
        from tensorflow.python.training import monitored_session, training_util

        _check_count(steps, "steps")
        _check_count(max_steps, "max_steps")
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        if max_steps is not None and self._count_steps() >= max_steps:
            _logger.info("Skipping training since max_steps has already saved.")
            return self
        own = check_hooks(hooks)
        with self._open_graph():
            spec, input_hooks = self._build(input_fn, ModeKeys.TRAIN)
            _summarise_loss(spec.loss)
            self._prepare_saver(spec)
            if self._warm_start is not None and self.latest_checkpoint() is None:
                _warm_start(self._warm_start)
            config, scaffold = self._config, spec.scaffold or monitored_session.Scaffold()
            shown = {"loss": spec.loss, "step": training_util.get_global_step()}
            every = config.log_step_count_steps
            watching = [stock.NanTensorHook(spec.loss)]
            watching += [stock.LoggingTensorHook(shown, every_n_iter=every)] if every else []
            saving = self._make_saving_hooks(scaffold, saving_listeners)
            with monitored_session.MonitoredTrainingSession(
                is_chief=True,
                checkpoint_dir=self._model_dir,
                scaffold=scaffold,
                hooks=[*input_hooks, *watching, *own, *spec.training_hooks, *self._make_stop_hooks(steps, max_steps)],
                chief_only_hooks=[*saving, *spec.training_chief_hooks],
                save_checkpoint_secs=0,
                save_summaries_steps=config.save_summary_steps,
                config=config.session_config,
                log_step_count_steps=every,
            ) as session:
                loss = None
                while not session.should_stop():
                    _, loss = session.run([spec.train_op, spec.loss])
        _logger.info("Loss for final step: %s.", loss)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Metrics over so many steps, or over all data."""
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import control_flow_ops, metrics_impl
        from tensorflow.python.training import evaluation

        _check_count(steps, "steps")
        own = check_hooks(hooks)
        with self._open_graph():
            spec, input_hooks = self._build(input_fn, ModeKeys.EVAL)
            with ops.device("/device:CPU:0"):
                metrics = {**spec.eval_metric_ops, LOSS_METRIC_KEY: metrics_impl.mean(spec.loss)}
            reader = StepReader()
            found = evaluation._evaluate_once(
                checkpoint_path or self.latest_checkpoint(),
                scaffold=spec.scaffold,
                eval_ops=control_flow_ops.group(*(update for _, update in metrics.values())),
                final_ops={title: value for title, (value, _) in metrics.items()},
                hooks=[reader, *input_hooks, *own, *spec.evaluation_hooks, *self._make_evaluation_hooks(steps)],
                config=self._config.session_config,
            )
        results = {**found, "global_step": reader.step}
        self._write_metrics(results, "eval" if not name else f"eval_{name}")
        return results

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predictions, one after the other, or batch by batch."""
        for found in self._run_predictions(input_fn, predict_keys, hooks, checkpoint_path):
            if yield_single_examples:
                yield from split_batch(found)
            else:
                yield found

    def _run_predictions(
        self, input_fn: Callable[..., Any], keys: Any, hooks: Sequence[Any] | None, checkpoint_path: str | None
    ) -> Iterator[Any]:
        from tensorflow.python.training import monitored_session

        own = check_hooks(hooks)
        with self._open_graph():
            spec, input_hooks = self._build(input_fn, ModeKeys.PREDICT)
            predictions = _choose_predictions(spec.predictions, keys)
            session = monitored_session.MonitoredSession(
                session_creator=monitored_session.ChiefSessionCreator(
                    checkpoint_filename_with_path=checkpoint_path or self.latest_checkpoint(),
                    scaffold=spec.scaffold,
                    config=self._config.session_config,
                ),
                hooks=[*input_hooks, *own, *spec.prediction_hooks],
            )
        with session:  # not inside the graph's context, which would last as long as the caller takes
            while not session.should_stop():
                yield session.run(predictions)

    @contextlib.contextmanager
    def _open_graph(self) -> Iterator[Any]:
        """A graph of its own, with a step counter; layers of Keras are named as in every other graph."""
        from tensorflow.python.framework import ops, random_seed

        with ops.Graph().as_default() as graph, begin_keras_names():
            if self._config.tf_random_seed is not None:
                random_seed.set_random_seed(self._config.tf_random_seed)
            _create_global_step()
            yield graph

    def _build(self, input_fn: Callable[..., Any], mode: str) -> tuple[EstimatorSpec, list[Any]]:
        """The model in the current graph, and hooks that its data need."""
        given = {"mode": mode, "params": self.params, "config": self.config}
        features, labels, hooks = read_inputs(call_with(input_fn, given), mode)
        spec = call_model_fn(self._model_fn, {"features": features}, labels, given)
        if not isinstance(spec, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return spec, hooks

    def _make_stop_hooks(self, steps: int | None, max_steps: int | None) -> list[Any]:
        from tensorflow.python.training import basic_session_run_hooks as stock

        return [] if steps is None and max_steps is None else [stock.StopAtStepHook(steps, max_steps)]

    def _make_evaluation_hooks(self, steps: int | None) -> list[Any]:
        from tensorflow.python.training import evaluation

        return [] if steps is None else [evaluation._StopAfterNEvalsHook(steps)]

    def _make_saving_hooks(self, scaffold: Any, listeners: Sequence[Any] | None) -> list[Any]:
        from tensorflow.python.training import basic_session_run_hooks as stock

        config = self._config
        if not config.save_checkpoints_secs and not config.save_checkpoints_steps:
            return []
        return [
            stock.CheckpointSaverHook(
                self._model_dir,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                scaffold=scaffold,
                listeners=list(listeners or ()),
            )
        ]

    def _prepare_saver(self, spec: EstimatorSpec) -> None:
        from tensorflow.python.framework import ops
        from tensorflow.python.training import saver

        if (spec.scaffold is None or spec.scaffold.saver is None) and not ops.get_collection(ops.GraphKeys.SAVERS):
            made = saver.Saver(
                max_to_keep=self._config.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=self._config.keep_checkpoint_every_n_hours,
                defer_build=True,
                save_relative_paths=True,
            )
            ops.add_to_collection(ops.GraphKeys.SAVERS, made)

    def _count_steps(self) -> int:
        from tensorflow.python.framework import errors, ops
        from tensorflow.python.training import checkpoint_utils

        try:
            return int(checkpoint_utils.load_variable(self._model_dir, ops.GraphKeys.GLOBAL_STEP))
        except (ValueError, errors.NotFoundError):
            return 0

    def _write_metrics(self, results: Mapping[str, Any], folder: str) -> None:
        from tensorflow.core.framework import summary_pb2
        from tensorflow.python.framework import ops
        from tensorflow.python.summary.writer import writer_cache

        summary = summary_pb2.Summary()
        for name, value in results.items():
            if name != "global_step" and getattr(value, "ndim", 0) == 0 and getattr(value, "dtype", None) is not None:
                summary.value.add(tag=name, simple_value=float(value))
        with ops.Graph().as_default():
            writer = writer_cache.FileWriterCache.get(os.path.join(self._model_dir, folder))
        writer.add_summary(summary, int(results["global_step"]))
        writer.flush()


def call_model_fn(
    model_fn: Callable[..., Any], features: Mapping[str, Any], labels: Any, given: Mapping[str, Any]
) -> Any:
    """Call a model function with those of the arguments that it has."""
    from tensorflow.python.util import function_utils

    names = function_utils.fn_args(model_fn)
    if "labels" not in names and labels is not None:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    return call_with(model_fn, {"labels": labels, **given}, features)


def split_batch(found: Any) -> Iterator[Any]:
    """The examples of a batch of predictions."""
    if not isinstance(found, dict):
        yield from found
        return
    lengths = {name: len(value) for name, value in found.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Batch length of predictions should be same: they are {lengths}.")
    for place in range(next(iter(lengths.values()))):
        yield {name: value[place] for name, value in found.items()}


@contextlib.contextmanager
def begin_keras_names() -> Iterator[None]:
    """Names that Keras gives layers count from the beginning: checkpoints know variables by them."""
    from keras.src.backend.common import global_state

    name = "object_name_uids"
    before = global_state.get_global_attribute(name)
    global_state.set_global_attribute(name, None)
    try:
        yield
    finally:
        global_state.set_global_attribute(name, before)


def _create_global_step() -> None:
    """A counter that programs on an IPU can read, too."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import init_ops, variable_scope

    with ops.name_scope(None), ops.device("/device:CPU:0"):
        variable_scope.get_variable(
            ops.GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=dtypes.int64,
            initializer=init_ops.zeros_initializer(),
            trainable=False,
            use_resource=True,
            collections=[ops.GraphKeys.GLOBAL_VARIABLES, ops.GraphKeys.GLOBAL_STEP],
        )


def _summarise_loss(loss: Any) -> None:
    from tensorflow.python.framework import ops
    from tensorflow.python.summary import summary

    with ops.device("/device:CPU:0"):
        summary.scalar(LOSS_METRIC_KEY, loss)


def _choose_predictions(predictions: Any, keys: Any) -> Any:
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    wanted = [keys] if isinstance(keys, str) else list(keys)
    chosen = {name: value for name, value in predictions.items() if name in wanted}
    if not chosen:
        raise ValueError(f"Expected to run at least one output from {list(predictions)}, provided {wanted}.")
    return chosen


def _check_count(value: int | None, what: str) -> None:
    if value is not None and value <= 0:
        raise ValueError(f"Must specify {what} > 0, given: {value}.")


def _read_settings(given: Any) -> WarmStartSettings:
    if isinstance(given, WarmStartSettings):
        return given
    if isinstance(given, (str, os.PathLike)):
        return WarmStartSettings(os.fspath(given))
    raise ValueError(f"warm_start_from must be a path or WarmStartSettings, not {given!r}.")


def _warm_start(settings: WarmStartSettings) -> None:
    from tensorflow.python.training import warm_starting_util

    warm_starting_util.warm_start(*settings)
