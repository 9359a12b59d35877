"""`python -m poprun …`, which is also how a launcher starts one on another host."""

import sys

from poprun.main import main

sys.exit(main())
