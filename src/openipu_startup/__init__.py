"""What openipu adds to every Python process of its environment: one finder, which waits for packages that it extends.

In: the program's imports. Out: once a module of `EXTENSIONS` has been loaded, the function beside it is called with the
module's name; a name of `ALIASES`, which no package of others has, is a module of ours. `openipu.pth`, a line beside
the installed packages, calls `install` when an interpreter starts, that of a worker process included. So this module
imports `sys` alone, and what it adds later never breaks the program's import.

PYTEST_DONT_REWRITE: it is imported before pytest could, which would warn of that in every test run.
"""

import sys

TYPE_CHECKING = False  # of `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

EXTENSIONS: "dict[str, str]" = {  # a module that the program imports: "module:function" to call then
    "lightning.pytorch": "lightning_graphcore._registration.arrival:register",
    "pytorch_lightning": "lightning_graphcore._registration.arrival:register",
    "paddle": "openipu_paddle.arrival:register",
    "tensorflow": "openipu_tensorflow.tf1:activate",
    "keras": "openipu_tensorflow.tf1:activate_keras",  # which may be imported before tensorflow, and imports it
    "torch_geometric.sampler.neighbor_sampler": "openipu_pyg.arrival:register",
    "torch_geometric.loader.cluster": "openipu_pyg.arrival:register",
    "torch_geometric.nn.pool": "openipu_pyg.arrival:register",
    "torch_geometric.nn.aggr.base": "openipu_pyg.arrival:register",
    "torch_geometric.nn.dense.linear": "openipu_pyg.arrival:register",
}
SWITCHES = {  # extended only where this variable is 1
    "paddle": "OPENIPU_PADDLE",
    "tensorflow": "OPENIPU_TF1",
    "keras": "OPENIPU_TF1",
}
BEFORE = {"paddle": ("FLAGS_enable_pir_api", "0")}  # a variable that must be set before it is loaded
ALIASES = {  # names that only the original's packages had, and all below them: which module of ours answers
    "tensorflow.python.ipu.keras": "openipu_tensorflow.keras",  # before what it is below
    "tensorflow.python.ipu.layers": "openipu_tensorflow.keras.layers",
    "tensorflow.python.ipu": "openipu_tensorflow.ipu",
    "tensorflow.compiler.plugin": "openipu_tensorflow.plugin",
    "tensorflow.contrib": "openipu_tensorflow.contrib",
    "tensorflow.keras.ipu": "openipu_tensorflow.keras",
    "keras.ipu": "openipu_tensorflow.keras",
    "keras.engine": "openipu_tensorflow.keras.legacy.engine",
    "keras.layers.core": "openipu_tensorflow.keras.legacy.core",
    "keras.optimizer_v2": "openipu_tensorflow.keras.legacy.optimizer_v2",
    "keras.utils.tf_inspect": "tensorflow.python.util.tf_inspect",
    "tensorflow.python.estimator": "openipu_tensorflow.estimator",
    "ipu_tensorflow_addons": "openipu_tensorflow.addons",
    "tensorflow.python.keras.applications": "keras.src.applications",
    "tensorflow.python.training.training_ops": "tensorflow.python.ops.gen_training_ops",  # where they are now
    "tensorflow.python.distribute.distribution_strategy_context": "tensorflow.python.distribute.distribute_lib",
    "tensorflow_core": "tensorflow",  # what the package itself was called until 2.1
}
_FIRST = ("tensorflow.", "tensorflow_core", "keras.", "ipu_")  # how each of them begins


def install() -> None:
    """Wait for the modules of `EXTENSIONS` from now on; a second call changes nothing."""
    if not is_installed():
        sys.meta_path.insert(0, _Finder())


def is_installed() -> bool:
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


class _Finder:
    """Finds nothing but aliases itself: it asks the others, and has the extension called after what they load."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name.startswith(_FIRST):
            return _find_alias(name)
        return _find_extended(self, name, path, target) if name in EXTENSIONS and _prepare(name) else None


class _AliasLoader:
    """Loads a module of ours under another name: one object, which keeps its own name and spec."""

    def __init__(self, real: str) -> None:
        self._real = real
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: "ModuleSpec") -> "ModuleType":
        import importlib

        module = importlib.import_module(self._real)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: "ModuleType") -> None:
        module.__spec__ = self._spec  # importing under another name has put that name's spec here

    def get_code(self, name: str) -> object:
        """For `python -m`."""
        import importlib.util

        spec = importlib.util.find_spec(self._real)
        return spec.loader.get_code(self._real)  # type: ignore[union-attr]


def _find_alias(name: str) -> "ModuleSpec | None":
    for alias, ours in ALIASES.items():
        if name == alias or name.startswith(alias + "."):
            import importlib.util
            from importlib.machinery import ModuleSpec

            real = ours + name[len(alias) :]
            found = importlib.util.find_spec(real)
            if found is None:
                return None
            package = found.submodule_search_locations is not None
            return ModuleSpec(name, _AliasLoader(real), origin=found.origin, is_package=package)  # type: ignore[arg-type]
    return None


def _prepare(name: str) -> bool:
    """Is the extension of a module wanted? If so, what it must find in the environment is there afterwards."""
    if name not in SWITCHES:
        return True
    import os

    if os.environ.get(SWITCHES[name]) != "1":
        return False
    if name in BEFORE:
        os.environ.setdefault(*BEFORE[name])
    return True


def _find_extended(
    own: _Finder, name: str, path: "Sequence[str] | None", target: "ModuleType | None"
) -> "ModuleSpec | None":
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if finder is own or find is None else find(name, path, target)
        if spec is not None:
            execute = getattr(spec.loader, "exec_module", None)
            if execute is not None:  # a zip file has one loader for all of its modules: the name is compared again
                spec.loader.exec_module = _extend_after(execute, name)  # type: ignore[union-attr, method-assign]
            return spec
    return None


def _extend_after(execute: "Callable[[ModuleType], object]", name: str) -> "Callable[[ModuleType], None]":
    def execute_and_extend(module: "ModuleType") -> None:
        execute(module)
        if module.__name__ == name:
            _extend(name)

    return execute_and_extend


def _extend(name: str) -> None:
    import importlib

    module, _, function = EXTENSIONS[name].partition(":")
    try:
        getattr(importlib.import_module(module), function)(name)
    except Exception as error:  # the program may need no IPU: its import of `name` has worked
        import warnings

        warnings.warn(
            f"openipu could not make IPUs known to {name} ({type(error).__name__}: {error}). Everything else works as "
            "without openipu; `openipu doctor` says which versions it expects.",
            RuntimeWarning,
            stacklevel=2,
        )
