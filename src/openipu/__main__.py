"""`python -m openipu …` is the same as `openipu …`."""

import sys


def main() -> int:
    """Run one command. Ctrl-C is quiet also while Python is still importing."""
    try:
        from openipu.cli import main as start

        return start()
    except KeyboardInterrupt:
        if sys.excepthook is sys.__excepthook__ and "openipu.cli.main" not in sys.modules:
            sys.excepthook = lambda *error: None
        raise  # the interpreter ends by the signal, as a shell expects


if __name__ == "__main__":
    sys.exit(main())
