"""Codelets as Python classes.

In: subclasses of `Vertex` with annotated fields and `compute(self)`; or with `computeAll(fields, state)`, which gets
arrays of all vertices of one size at once: [vertices] for a scalar, [vertices, length] for a vector. Out: objects that
the engine runs. A trailing underscore keeps Python's own words free: the field `in_` is connected as "in".
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped import Access, Array, Batch, Field, Form, VertexFault
from poplar._errors import file_load_error, graph_object_creation_error
from poplar._fields import read_kind


class Scalar:
    """A field of one element: `self.out.value = …`, which C++ writes `*out = …`."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def value(self) -> Any:
        return self._array[()]

    @value.setter
    def value(self, new: Any) -> None:
        self._array[()] = new

    def __float__(self) -> float:
        return float(self._array[()])

    def __int__(self) -> int:
        return int(self._array[()])

    def __bool__(self) -> bool:
        return bool(self._array[()])


class Vertex:
    """Base of codelets. One vertex is one call of `compute`; False stops the program."""

    fields: ClassVar[tuple[Field, ...]] = ()

    def compute(self) -> bool | None:
        raise NotImplementedError(f"{type(self).__name__} has no compute().")


class MultiVertex(Vertex):
    """A vertex whose `compute(self, workerId)` is called once for each worker of a tile."""

    workers: ClassVar[int] = 6

    def compute(self, workerId: int = 0) -> bool | None:
        raise NotImplementedError(f"{type(self).__name__} has no compute(workerId).")

    @classmethod
    def numWorkers(cls) -> int:
        return cls.workers


class SupervisorVertex(Vertex):
    """A vertex that has a whole tile to itself."""


class PythonCodelet:
    """A `Vertex` class as the engine sees it."""

    def __init__(self, cls: type[Vertex]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.attributes: dict[str, str] = {}  # field -> attribute
        fields = []
        for attribute, annotation in _list_annotations(cls):
            kind = read_kind(annotation)
            if kind is None:
                continue
            name = attribute[:-1] if attribute.endswith("_") and not attribute.startswith("_") else attribute
            self.attributes[name] = attribute
            fields.append(Field(name, kind.access, kind.form, kind.type))
        self.fields: Sequence[Field] = tuple(fields)
        cls.fields = tuple(fields)
        self._all = getattr(cls, "computeAll", None)

    @property
    def reference(self) -> Mapping[str, str]:
        """By name: another process imports the same class. Python code is never written into a file."""
        if "<locals>" in self.cls.__qualname__:
            return {}
        file = inspect.getsourcefile(self.cls) or ""
        return {"kind": "python", "module": self.cls.__module__, "class": self.cls.__qualname__, "file": file}

    def run(self, batch: Batch) -> int:
        if self._all is not None:
            fields = {self.attributes[name]: value for name, value in batch.arrays.items()}
            state = {self.attributes.get(name, name): value for name, value in batch.state.items()}
            try:
                good = self._all(fields, state) if _takes_state(self._all) else self._all({**fields, **state})
            except Exception as error:
                raise _explain(error, "computeAll()") from error
            if isinstance(good, np.ndarray):
                return -1 if good.all() else int(np.flatnonzero(~good)[0])
            return 0 if good is False else -1
        vertex = self.cls.__new__(self.cls)
        workers = self.cls.workers if issubclass(self.cls, MultiVertex) else 0
        by_field = [(self.attributes[entry.name], entry, batch.arrays.get(entry.name)) for entry in self.fields]
        calls: list[tuple[Any, ...]] = [(worker,) for worker in range(workers)] or [()]
        failed = -1
        for place in range(batch.count):
            for attribute, entry, values in by_field:
                setattr(vertex, attribute, _pick(entry, values, batch.state, place))
            for arguments in calls:
                try:
                    good = vertex.compute(*arguments)
                except Exception as error:
                    raise _explain(error, "compute()", place) from error
                if good is False and failed < 0:
                    failed = place
                    if not batch.goes_on:
                        return failed
        return failed

    def estimate(self, batch: Batch) -> npt.NDArray[np.int64] | None:
        """`cycles(fields, state)` of the class, if it has one."""
        own = getattr(self.cls, "estimateCycles", None)
        if own is None:
            return None
        found = own({self.attributes[name]: value for name, value in batch.arrays.items()}, batch.state)
        return np.broadcast_to(np.asarray(found, dtype=np.int64), (batch.count,)).copy()


def _explain(error: Exception, what: str, place: int = -1) -> VertexFault:
    """Whose exception it was; the user's own follows in the traceback."""
    return VertexFault(f"its {what} raised {type(error).__name__}: {error}", place)


def _pick(entry: Field, values: Array | Sequence[Array] | None, state: Mapping[str, Array], place: int) -> Any:
    if entry.access is Access.STATE:
        held = state.get(entry.name)
        return None if held is None else held[place]
    assert values is not None
    if entry.form is Form.VECTOR_LIST:
        return [row[place] for row in values]
    if entry.form is Form.SCALAR:
        assert isinstance(values, np.ndarray)
        return Scalar(values[place : place + 1].reshape(()))
    return values[place]


def _takes_state(function: Any) -> bool:
    return len(inspect.signature(function).parameters) >= 2


def _list_annotations(cls: type) -> list[tuple[str, Any]]:
    """Fields of a class and of its bases, in order."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is object or base.__module__ == __name__:
            continue
        try:
            found.update(inspect.get_annotations(base, eval_str=True))
        except NameError as error:
            raise graph_object_creation_error(
                f"The fields of codelet {cls.__name__} cannot be read: {error}. Import the names that its annotations "
                "use in the module that defines it."
            ) from error
    return list(found.items())


def list_codelets(source: Any) -> list[PythonCodelet]:
    """The codelets of a class, a module, or the path of a Python file."""
    if isinstance(source, type) and issubclass(source, Vertex):
        return [PythonCodelet(source)]
    if isinstance(source, ModuleType):
        found = [
            PythonCodelet(value)
            for value in vars(source).values()
            if isinstance(value, type) and issubclass(value, Vertex) and value.__module__ == source.__name__
        ]
        if not found:
            raise graph_object_creation_error(f"The module {source.__name__} has no subclass of poplar.Vertex.")
        return found
    return list_codelets(_load_module(Path(source)))


def _load_module(path: Path) -> ModuleType:
    if not path.is_file():
        raise file_load_error(f"There is no codelet file {path}. Check the path; it is relative to {Path.cwd()}.")
    name = f"poplar_codelets_{path.stem}_{abs(hash(str(path.resolve())))}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
