"""An optimizer around another one."""

from __future__ import annotations

from typing import Any

from tensorflow.python.training import optimizer as _optimizer


class IpuOptimizer(_optimizer.Optimizer):  # type: ignore[misc]
    """Does what the wrapped optimizer does; those built on it change some of that."""

    def __init__(self, opt: Any, name: str | None = None) -> None:
        if not isinstance(opt, _optimizer.Optimizer):
            raise TypeError(
                f"{type(self).__name__} wraps a TF1 optimizer (tf.compat.v1.train.Optimizer), not {type(opt).__name__}."
            )
        super().__init__(use_locking=False, name=name or type(self).__name__)
        self._opt = opt

    def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_name(self) -> str:
        return str(self._opt.get_name())

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        return self._opt.variables()

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._opt._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._opt._resource_apply_dense(grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._opt._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._opt._resource_apply_sparse(grad, handle, indices)
