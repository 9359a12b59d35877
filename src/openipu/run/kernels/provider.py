"""Who finds, compiles and keeps the kernels of a process: one `KernelProvider` for each cache.

In: kernels that programs could use. Out: the `KernelLibrary` of those that are there. Kernels are compiled one by one,
in the background, at low priority; a program gets each as soon as it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from openipu.run.kernels.build import KernelBuild, KernelBuildError, NoCompilerError, find_kernel
from openipu.run.kernels.kernel import Kernel
from openipu.run.kernels.library import KernelLibrary, LoadedKernel
from openipu.store import Store, choose_directory, open_store

_logger = logging.getLogger("openipu")
_NO_COMPILER = (
    "There is no C++ compiler, so that PyTorch's operators do the work of openipu's kernels, with the same results: "
    "training is up to 1.2 times slower, inference of small convolutional networks and LSTM layers up to seven times, "
    "and stochastic rounding several times. Install one, such as g++ (`apt-get install g++`) or clang++."
)


class KernelProvider:
    """The kernels of one process and one cache. Programs share it."""

    def __init__(self, store: Store | None = None, flags: Sequence[str] = ()) -> None:
        """`flags`: what the compiler is told beside the usual, such as to check addresses."""
        self._flags = tuple(flags)
        self._store = store or open_store()
        self._library = KernelLibrary()
        self._looked: set[Kernel] = set()  # the cache does not have them
        self._failed: dict[Kernel, str] = {}
        self._wanted: list[Kernel] = []  # in this order
        self._build: KernelBuild | None = None
        self._warned = False

    @property
    def library(self) -> KernelLibrary:
        """What is there now."""
        return self._library

    @property
    def busy(self) -> bool:
        """Whether something is being compiled, or waits for that."""
        return self._build is not None or bool(self._wanted)

    @property
    def build(self) -> KernelBuild | None:
        """The compilation that goes on now."""
        return self._build

    def explain_failure(self, kernel: Kernel) -> str | None:
        """Why a kernel could not be compiled."""
        return self._failed.get(kernel)

    def load(self, kernels: Iterable[Kernel]) -> KernelLibrary:
        """Take kernels from the cache; none is compiled."""
        for kernel in kernels:
            if kernel in self._library or kernel in self._looked:
                continue
            found = find_kernel(kernel, self._store, self._flags)
            if found is None:
                self._looked.add(kernel)
            else:
                self.add(found)
        return self._library

    def request(self, kernels: Iterable[Kernel]) -> None:
        """Have kernels compiled in the background, where the cache lacks them. `poll` takes them over."""
        given = tuple(kernels)
        self.load(given)
        self._wanted += [kernel for kernel in given if self._is_missing(kernel) and kernel not in self._wanted]
        self._start_next()

    def poll(self) -> KernelLibrary:
        """Take over what was compiled since, and go on with the next one."""
        if self._build is not None and self._build.done:
            self._finish(self._build)
            self._start_next()
        return self._library

    def obtain(self, kernels: Iterable[Kernel]) -> KernelLibrary:
        """Wait until kernels are there, or could not be compiled."""
        given = tuple(kernels)
        self.load(given)
        for kernel in given:
            if self._build is not None and self._build.kernel == kernel:
                self._finish(self._build)
            elif self._is_missing(kernel):
                build = self._begin(kernel, background=False)
                if build is not None:
                    self._finish(build)
        self._start_next()
        return self._library

    def add(self, loaded: LoadedKernel) -> None:
        """Use a kernel that somebody else has loaded."""
        self._looked.discard(loaded.kernel)
        self._library = self._library.extend([loaded])

    def close(self) -> None:
        """Stop what is being compiled. Kernels that are loaded stay."""
        self._wanted.clear()
        if self._build is not None:
            self._build.stop()
            self._build = None

    def _is_missing(self, kernel: Kernel) -> bool:
        building = self._build is not None and self._build.kernel == kernel
        return kernel not in self._library and kernel not in self._failed and not building

    def _start_next(self) -> None:
        while self._build is None and self._wanted:
            kernel = self._wanted.pop(0)
            if self._is_missing(kernel):
                self._build = self._begin(kernel, background=True)

    def _begin(self, kernel: Kernel, *, background: bool) -> KernelBuild | None:
        try:
            build = KernelBuild(kernel, self._store, background=background, flags=self._flags)
        except NoCompilerError as error:
            self._failed[kernel] = str(error)
            if not self._warned:
                self._warned = True
                _logger.warning(_NO_COMPILER)
            return None
        except (KernelBuildError, OSError) as error:
            self._give_up(kernel, error)
            return None
        _logger.info("A kernel is being compiled, for all programs: %s.", kernel.name)
        return build

    def _finish(self, build: KernelBuild) -> None:
        self._build = None if build is self._build else self._build
        try:
            self.add(build.finish())
        except (KernelBuildError, OSError) as error:
            self._give_up(build.kernel, error)
            return
        _logger.info("A kernel was compiled in %.1f s: %s.", build.seconds, build.kernel.name)

    def _give_up(self, kernel: Kernel, error: Exception) -> None:
        self._failed[kernel] = str(error)
        _logger.warning(
            "A kernel could not be compiled, and operators do its work, more slowly: %s (%s).", kernel.name, error
        )


def find_provider() -> KernelProvider:
    """The provider of this process for the user's cache."""
    return _provider_of(choose_directory(None))


@cache
def _provider_of(directory: Path) -> KernelProvider:
    return KernelProvider(open_store(directory))
