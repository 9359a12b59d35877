"""The answer to "which version of poptorch is installed?".

In: a question to `importlib.metadata` for the distribution "poptorch", as `require_version("poptorch>=3.3")` of
Transformers asks it. Out: the version of the interface that is implemented, and who implements it. openipu is
installed under its own name, so without this the answer would be that there is no poptorch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path

NAME = "poptorch"


class ProvidedDistribution(Distribution):
    """Metadata of the interface; there are no files of its own to list or to remove."""

    def __init__(self, version: str) -> None:
        self._version = version

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return (
            f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {self._version}\n"
            "Summary: The interface of PopTorch, provided by openipu\nRequires-Dist: openipu\n"
        )

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parent.parent / path


class ProvidedFinder(DistributionFinder):
    """Answers for one name, and only where it is asked for: a list of what is installed stays what pip installed."""

    def __init__(self, version: str) -> None:
        self._version = version

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        asked = context.name if context is not None else None
        return [ProvidedDistribution(self._version)] if asked is not None and asked.lower() == NAME else []

    def find_spec(self, *_: object) -> None:
        """Nothing is imported from here."""


def provide_distribution(version: str) -> None:
    """Answer from now on, after all other finders: a distribution that is really installed comes first."""
    if not any(isinstance(finder, ProvidedFinder) for finder in sys.meta_path):
        sys.meta_path.append(ProvidedFinder(version))
