"""Weights live twice, on the host and on the device, and the host's copy is refreshed when somebody looks at it.

In: a user's model and the executor that trains it. Out: the same model object, whose class is a generated
`Poptorch<Class>`, and whose parameters and buffers ask the executor for fresh values on access. `unwrap_model` undoes
it; `set_wrapping_aside` does so until `restore_wrapping`, for libraries that wrap parts of the model on their own.
"""

from __future__ import annotations

import copyreg
import itertools
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol, TypeGuard

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from openipu.capture import hold_models
from poptorch.enums import CommGroupType, VariableRetrievalMode
from poptorch.errors import createPoptorchError

ALREADY_WRAPPED = (
    "Model has already been wrapped in 'poptorch.trainingModel'. "
    "Call model.destroy() on the model to unwrap before wrapping again."
)

_SET_ASIDE: MutableMapping[Any, Any] = WeakIdKeyDictionary()  # model or tensor -> the generated class that it gets back

_changes = itertools.count(1)
_last_change = 0


class WeightOwner(Protocol):
    """What holds the device's copy of weights."""

    host_weights_version: int  # rises with each copy to the host

    def hold_device(self) -> AbstractContextManager[Any]: ...

    def copyWeightsToHostIfNeeded(self) -> bool: ...

    def destroy(self) -> None: ...

    def group_replicas(
        self, parameter: torch.Tensor, kind: CommGroupType, size: int, mode: VariableRetrievalMode
    ) -> None: ...


class _SyncedTensor:
    """Mixed into the class of a parameter or buffer: every torch function on it refreshes the host's copy first, and no
    other thread does so meanwhile."""

    _poptorch_owner: WeightOwner
    _poptorch_plain: type[torch.Tensor]

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # Tensors of several executors may meet, and only one of them is asked.
        owners = {kind._poptorch_owner for kind in (cls, *types) if issubclass(kind, _SyncedTensor)}
        with ExitStack() as held:
            for owner in sorted(owners, key=id):
                if func is not torch.Tensor.backward:  # it calls hooks of the user's, which may wait for anything
                    held.enter_context(owner.hold_device())
                owner.copyWeightsToHostIfNeeded()
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    def replicaGrouping(
        self, comm_group_type: CommGroupType, shards: int, variable_retrieval_mode: VariableRetrievalMode
    ) -> None:
        """Give each group of replicas a value of its own; on the host, the first dimension counts the groups."""
        assert isinstance(self, torch.Tensor)
        self._poptorch_owner.group_replicas(self, comm_group_type, shards, variable_retrieval_mode)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._call_as_plain("__reduce_ex__", protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._call_as_plain("__deepcopy__", memo)

    def __repr__(self) -> str:
        return str(self._call_as_plain("__repr__"))

    def _call_as_plain(self, method: str, *arguments: Any) -> Any:
        """Copies, pickles and texts are those of the plain class: they need no poptorch."""
        owner = getattr(type(self), "_poptorch_owner", None)
        if owner is None:  # another thread freed the model, or does just the same
            return getattr(self, method)(*arguments)
        with owner.hold_device():
            owner.copyWeightsToHostIfNeeded()
            synced = type(self)
            self.__class__ = getattr(synced, "_poptorch_plain", synced)
            try:
                return getattr(self, method)(*arguments)
            finally:
                self.__class__ = synced


class _WrappedModel:
    """Mixed into the class of a user's model while an executor trains it."""

    _poptorch_owner: WeightOwner
    _poptorch_plain: type[nn.Module]

    def __getattribute__(self, name: str) -> Any:
        kind: Any = type(self)  # another thread may free the model here: it has its plain class again then
        if name in ("_parameters", "_buffers", "forward") and issubclass(kind, _WrappedModel):
            kind._poptorch_owner.copyWeightsToHostIfNeeded()
        while issubclass(kind, _WrappedModel):
            kind = kind._poptorch_plain
        return kind.__getattribute__(self, name)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Refresh the host's weights if training changed them since; says whether it did."""
        return self._poptorch_owner.copyWeightsToHostIfNeeded()

    def destroy(self) -> None:
        """Give the model its own class back and free what was compiled."""
        owner = self._poptorch_owner
        owner.destroy()
        with hold_models():
            if isinstance(self, _WrappedModel):  # an executor that never compiled leaves the model wrapped
                unwrap_model(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.copyWeightsToHostIfNeeded()
        reduced: Any = super().__reduce_ex__(protocol)
        rebuild = copyreg._reconstructor  # type: ignore[attr-defined]  # pickle refuses another class from __newobj__
        return (rebuild, (self._poptorch_plain, object, None), *reduced[2:])


def is_wrapped(model: object) -> bool:
    return isinstance(model, _WrappedModel)


def wrap_model(model: nn.Module, owner: WeightOwner) -> None:
    """Change the classes of a model, its parameters and its buffers, in place."""
    with hold_models():
        _wrap(model, owner)


def _wrap(model: nn.Module, owner: WeightOwner) -> None:
    if is_wrapped(model):
        raise RuntimeError(ALREADY_WRAPPED)
    parameters, buffers = list(model.parameters()), list(model.buffers())
    for name, buffer in model.named_buffers():
        if isinstance(buffer, _SyncedTensor):
            raise RuntimeError(ALREADY_WRAPPED)
        if type(buffer) is not torch.Tensor:
            raise createPoptorchError(
                f"The buffer {name} is a {type(buffer).__name__}, and has to be a plain torch.Tensor: "
                "register one instead."
            )
    if any(isinstance(parameter, _SyncedTensor) for parameter in parameters):
        raise RuntimeError(ALREADY_WRAPPED)
    classes: dict[type, type] = {}
    for tensor in (*parameters, *buffers):
        plain = type(tensor)
        if plain not in classes:
            body = {"_poptorch_owner": owner, "_poptorch_plain": plain}
            classes[plain] = type(f"Poptorch{plain.__name__}", (_SyncedTensor, plain), body)
        tensor.__class__ = classes[plain]
    _note_change()
    plain_model = type(model)
    body = {"_poptorch_owner": owner, "_poptorch_plain": plain_model, "__module__": plain_model.__module__}
    model.__class__ = type(f"Poptorch{plain_model.__name__}", (_WrappedModel, plain_model), body)


def unwrap_model(model: Any) -> None:
    """Give a model, its parameters and its buffers their own classes back."""
    if is_wrapped(model):
        model.__class__ = model._poptorch_plain
    for tensor in (*model.parameters(), *model.buffers()):
        if isinstance(tensor, _SyncedTensor):
            tensor.__class__ = tensor._poptorch_plain  # type: ignore[assignment]
    _note_change()
    for each in (model, *model.parameters(), *model.buffers()):
        _SET_ASIDE.pop(each, None)  # what was freed for good is not to come back


def set_wrapping_aside(model: nn.Module) -> None:
    """Give a model, its parameters and its buffers their own classes, with fresh values, until `restore_wrapping`."""
    wrapped = [each for each in (model, *model.parameters(), *model.buffers()) if _is_generated(each)]
    for each in wrapped:
        type(each)._poptorch_owner.copyWeightsToHostIfNeeded()  # nobody will ask for it while they are plain
    for each in wrapped:
        _SET_ASIDE[each] = type(each)
        each.__class__ = type(each)._poptorch_plain
    _note_change()


def restore_wrapping(model: nn.Module) -> None:
    """Undo `set_wrapping_aside` for what is still part of the model."""
    for each in (model, *model.parameters(), *model.buffers()):
        generated = _SET_ASIDE.pop(each, None)
        if generated is not None:
            each.__class__ = generated
    _note_change()


def _is_generated(value: object) -> TypeGuard[Any]:
    return isinstance(value, _SyncedTensor | _WrappedModel)


def find_last_change() -> int:
    """A number that is another one once any tensor has got another owner: none is looked for in every call."""
    return _last_change


def _note_change() -> None:
    """After the classes have changed: who looks meanwhile looks again."""
    global _last_change
    _last_change = next(_changes)


def find_owners(tensors: Iterable[torch.Tensor]) -> list[WeightOwner]:
    """The executors that train any of these tensors."""
    owners: list[WeightOwner] = []
    for tensor in tensors:
        owner = getattr(type(tensor), "_poptorch_owner", None)
        if owner is not None and owner not in owners:
            owners.append(owner)
    return owners
