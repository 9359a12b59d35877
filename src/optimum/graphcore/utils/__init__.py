"""Small helpers for scripts."""

from __future__ import annotations

from packaging import version

from optimum.graphcore.version import __version__


def check_min_version(min_version: str) -> None:
    """Raise ImportError if a script asks for a newer interface than this one."""
    if version.parse(__version__) >= version.parse(min_version):
        return
    needs = (
        "This example requires a source install from HuggingFace Optimum-Graphcore"
        if "dev" in min_version
        else f"This example requires a minimum version of {min_version}"
    )
    raise ImportError(f"{needs}, but the version found is {__version__}. Update openipu.")
