"""Extras: optional packages that a part of openipu builds on, and the command that installs them here.

In: the name of an extra in `pyproject.toml`. Out: a `pip install` line that works in this environment: from the
checkout, the wheel or the repository that openipu itself was installed from, or by name if it came from an index.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

_NAME = "openipu"


def suggest_install(extra: str) -> str:
    """The command that adds this extra to the present installation."""
    origin = _read_origin()
    if origin is None:
        return f"pip install '{_NAME}[{extra}]'"
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        return f"pip install '{_NAME}[{extra}] @ {origin['vcs_info'].get('vcs', 'git')}+{url}'"
    path = Path(url2pathname(urlparse(url).path))
    if not path.exists():  # installed from a file that is gone
        return f"pip install '.[{extra}]' in a checkout of {_NAME}"
    option = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {option}{shlex.quote(f'{path}[{extra}]')}"


def explain_missing(error: ModuleNotFoundError, part: str, extra: str) -> ModuleNotFoundError:
    """One sentence in place of a failed import deep inside of `part`."""
    package = (error.name or "a package").partition(".")[0]
    message = f"{part} needs {package}, which is not installed: {suggest_install(extra)}"
    return ModuleNotFoundError(message, name=error.name)


def _read_origin() -> dict[str, Any] | None:
    """Where pip took openipu from; None for an index. A plain folder on the path counts as a file that is gone."""
    try:
        text = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return {"url": "file:///nonexistent"}
    return None if text is None else dict(json.loads(text))
