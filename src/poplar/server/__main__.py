"""`python -m poplar.server DESCRIPTOR`: serve the C++ program at the other end of an inherited socket."""

from __future__ import annotations

import signal
import sys

from poplar.server.session import serve

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides; this process ends with it
    serve(int(sys.argv[1]))
