"""What can go wrong with C++ codelets, until the front end gives it the original's name."""

from __future__ import annotations

from openipu.errors import OpenIpuError


class CodeletError(OpenIpuError):
    """Base of all of them."""


class CompilerMissingError(CodeletError):
    """No C++ compiler: the user installs one."""


class CompilerError(CodeletError):
    """The source does not compile: the user corrects the lines that the compiler names."""


class CodeletSourceError(CodeletError):
    """The source compiles, but holds what cannot be a vertex, or no vertex at all."""


class CodeletFileError(CodeletError):
    """A file of codelets is missing, damaged, or not one."""


class CodeletRunError(CodeletError):
    """A vertex crashed, did not end, or took too much memory: `vertex` is its number in its batch."""

    def __init__(self, message: str = "", vertex: int = -1) -> None:
        super().__init__(message)
        self.vertex = vertex
