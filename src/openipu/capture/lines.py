"""Which line of the user's own code is running.

In: the Python stack. Out: a `SourceLine`: the innermost frame that belongs neither to torch nor to openipu.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import re
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType

import torch

from openipu.graph import SourceLine

_internal_prefixes: list[str] = [
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(sys.executable) + os.sep,  # the launchers of commands such as `openipu`
]
_internal_files = {contextlib.__file__, functools.__file__}
# Code that Python itself made up. "<string>" is also what `python -c` runs, so it counts when there is nothing else.
_generated_names = ("<frozen ", "<eval_with_key>", "<__array_function__")
_written_frame = re.compile(r'\s*File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<function>[^\n]+)')


def register_internal_directory(directory: str) -> None:
    """Front ends name their own folder, so that an error points to their user and not to them."""
    prefix = os.path.abspath(directory) + os.sep
    if prefix not in _internal_prefixes:
        _internal_prefixes.append(prefix)
        _judge_file.cache_clear()


def find_user_line() -> SourceLine | None:
    """The innermost line of user code on the stack."""
    frame: FrameType | None = sys._getframe(1)
    generated: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if not _judge_file(code.co_filename):
            if code.co_filename != "<string>":
                return _describe_frame(frame)
            generated = generated or frame
        frame = frame.f_back
    return _describe_frame(generated) if generated is not None else None


def find_written_line(stack: Sequence[str]) -> SourceLine | None:
    """The innermost line of user code in a stack that was written down as Python prints it, outermost first."""
    for text in reversed(stack):
        found = _written_frame.match(text)
        if found is not None and not _judge_file(found["file"]):
            return SourceLine(found["file"], int(found["line"]), found["function"])
    return None


def keep_user_frames(trace: TracebackType | None) -> TracebackType | None:
    """The same traceback without the frames of torch, openipu and its front ends: it ends at the user's line."""
    kept = []
    while trace is not None:
        if not _judge_file(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        trace = trace.tb_next
    for entry in reversed(kept):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace


def quote_line(line: SourceLine) -> str:
    """Where it is and what stands there: the end of an error message."""
    text = linecache.getline(line.file, line.line).strip()
    return f"\n  at {line}" + (f": {text}" if text else "")


@functools.lru_cache(maxsize=4096)  # generated code has file names without end
def _judge_file(file: str) -> bool:
    return file.startswith((*_internal_prefixes, *_generated_names)) or file in _internal_files


def _describe_frame(frame: FrameType) -> SourceLine:
    return SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
