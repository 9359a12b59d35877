"""What the optimizer function of a pipeline returns."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.ipu.eager.backprop import GradientCaptureContext, GradientCaptureTape, capture_into


class OptimizerFunctionOutput:
    """The optimizer, the loss, and how gradients are computed and applied."""

    def __init__(
        self,
        opt: Any,
        loss: Any,
        compute_gradients_args: Any = None,
        compute_gradients_kwargs: Any = None,
        apply_gradients_args: Any = None,
        apply_gradients_kwargs: Any = None,
        variables: Any = None,
        tape: Any = None,
        gradient_capture_context: Any = None,
        captured_gradient_outfeed: Any = None,
    ) -> None:
        from tensorflow.python.eager import backprop
        from tensorflow.python.framework.tensor import Tensor
        from tensorflow.python.training import optimizer

        self._is_v1 = isinstance(opt, optimizer.Optimizer)
        if not self._is_v1 and not hasattr(opt, "apply_gradients"):
            raise TypeError(
                f"OptimizerFunctionOutput.opt must be a TensorFlow Optimizer object, not {type(opt).__name__}."
            )
        if not isinstance(loss, Tensor):
            raise TypeError(f"OptimizerFunctionOutput.loss must be a TensorFlow Tensor object, not {loss!r}.")
        sequences: dict[str, tuple[Any, Any, str]] = {
            "compute_gradients_args": (compute_gradients_args, (list, tuple), "a list or a tuple"),
            "compute_gradients_kwargs": (compute_gradients_kwargs, dict, "a dictionary"),
            "apply_gradients_args": (apply_gradients_args, (list, tuple), "a list or a tuple"),
            "apply_gradients_kwargs": (apply_gradients_kwargs, dict, "a dictionary"),
            "variables": (variables, (list, tuple), "a list or a tuple"),
        }
        for name, (value, kinds, text) in sequences.items():
            if value is not None and not isinstance(value, kinds):
                raise TypeError(f"OptimizerFunctionOutput.{name} must be {text}.")
            if value and name.startswith("compute") and not self._is_v1:
                raise ValueError(f"OptimizerFunctionOutput.{name} may not be used with OptimizerV2 instances.")
        if tape is not None and not isinstance(tape, backprop.GradientTape):
            raise TypeError("OptimizerFunctionOutput.tape must be a GradientTape.")
        if tape is not None and self._is_v1:
            raise ValueError("OptimizerFunctionOutput.tape may only be used with OptimizerV2.")
        if variables and self._is_v1:
            raise ValueError("OptimizerFunctionOutput.variables may only be used with OptimizerV2.")
        if tape is not None and variables:
            raise ValueError(
                "OptimizerFunctionOutput.tape may not be used when OptimizerFunctionOutput.variables is nonempty."
            )
        _check_captures(tape, gradient_capture_context, captured_gradient_outfeed)
        self.gradient_capture_context = gradient_capture_context
        self.captured_gradient_outfeed = captured_gradient_outfeed
        self.opt, self.loss = opt, loss
        self.compute_gradients_args = tuple(compute_gradients_args or ())
        self.compute_gradients_kwargs = dict(compute_gradients_kwargs or {})
        self.apply_gradients_args = tuple(apply_gradients_args or ())
        self.apply_gradients_kwargs = dict(apply_gradients_kwargs or {})
        self._variables, self.tape = list(variables or ()), tape

    @property
    def variables(self) -> list[Any]:
        """Those that a Keras optimizer trains, where no tape says it."""
        return self._variables

    @variables.setter
    def variables(self, value: Any) -> None:
        if value and self.tape is not None:
            raise ValueError(
                "OptimizerFunctionOutput.variables must be empty when OptimizerFunctionOutput.tape is used."
            )
        self._variables = list(value)

    @property
    def captures(self) -> Any:
        """Where gradients of activations are captured; None for nowhere."""
        return self.gradient_capture_context or (self.tape if isinstance(self.tape, GradientCaptureTape) else None)

    def compute_gradients(self) -> list[tuple[Any, Any]]:
        """Gradients with their variables; those of activations are captured."""
        with capture_into(self.captures):
            return self._compute()

    def _compute(self) -> list[tuple[Any, Any]]:
        if self._is_v1:
            return list(
                self.opt.compute_gradients(self.loss, *self.compute_gradients_args, **self.compute_gradients_kwargs)
            )
        from tensorflow.python.ops import gradients_impl

        variables = list(self.tape.watched_variables()) if self.tape is not None else self.variables
        if not variables:
            raise RuntimeError(
                "No variables to optimize. With a Keras optimizer, OptimizerFunctionOutput must contain a list of "
                "variables or a GradientTape."
            )
        return list(zip(gradients_impl.gradients(self.loss, variables), variables, strict=True))

    def apply_gradients(self, pairs: list[tuple[Any, Any]]) -> Any:
        """The op of the update."""
        from tensorflow.python.ops import control_flow_ops

        done = self.opt.apply_gradients(pairs, *self.apply_gradients_args, **self.apply_gradients_kwargs)
        return control_flow_ops.no_op() if done is None else done


def _check_captures(tape: Any, context: Any, queue: Any) -> None:
    from openipu_tensorflow.ipu.ipu_outfeed_queue import IPUOutfeedQueue

    title = "OptimizerFunctionOutput"
    if context is not None and not isinstance(context, GradientCaptureContext):
        raise TypeError(f"{title}.gradient_capture_context must be an ipu.eager.backprop.GradientCaptureContext.")
    if context is not None and tape is not None:
        raise ValueError(f"{title}.gradient_capture_context may not be used when {title}.tape is nonempty.")
    if queue is None:
        return
    if not isinstance(queue, IPUOutfeedQueue):
        raise TypeError(f"{title}.captured_gradient_outfeed must be an instance of IPUOutfeedQueue.")
    if context is None and not isinstance(tape, GradientCaptureTape):
        raise ValueError(
            f"{title}.captured_gradient_outfeed may not be used when neither a GradientCaptureContext, nor a "
            "GradientCaptureTape is also used."
        )
