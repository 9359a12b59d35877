"""What tells one version of the stack from another, as Optimum Graphcore asks for it.

In: nothing. Out: a text that is the same for the same versions of PopTorch's interface and of openipu.
"""

from __future__ import annotations

import hashlib

import openipu
import poptorch


def sdk_version_hash() -> str:
    """Ten hexadecimal digits."""
    versions = f"{poptorch.__version__} {openipu.__version__}"
    return hashlib.sha256(versions.encode()).hexdigest()[:10]
