"""The command line: `openipu run | plan | report | systems | doctor`.

In: the words of a shell. Out: an exit code, tables on standard output, messages on standard error.
Nothing here imports torch until a command needs it.
"""

from openipu.cli.main import main

__all__ = ["main"]
