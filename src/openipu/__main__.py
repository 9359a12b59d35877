"""`python -m openipu …` is the same as `openipu …`."""

import sys

from openipu.cli import main

if __name__ == "__main__":
    sys.exit(main())
