"""A worker process: makes one object and calls its methods, one at a time, as the driver says.

In: lines of JSON on standard input, first `{"make": "module:Class", "arguments": {…}}`, then `{"call": "method",
"arguments": {…}}`. Out: a line of JSON for each, `{"answer": …}` or `{"error": …}`. Between two lines the process
waits for the pipe.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any, TextIO


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more."""
    served: Any = None
    for line in requests:
        request = json.loads(line)
        try:
            if "make" in request:
                module, _, name = request["make"].partition(":")
                served = getattr(importlib.import_module(module), name)(**request["arguments"])
                answer = None
            else:
                answer = getattr(served, request["call"])(**request["arguments"])
            reply = {"answer": answer}
        except Exception as error:  # the driver goes on without this way
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


def main() -> None:
    # Whatever a library prints goes to the log, not between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
