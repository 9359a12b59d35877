"""Stands in for examples-utils, which is on GitHub alone: C++ ops are not built here, openipu has them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def load_lib(path: str, *args: Any, **options: Any) -> None:
    """Would compile the C++ code at `path` and load it."""
    with open(path, "rb"):
        pass


def parse_yaml_config(args: Any, parser: Any) -> Any:
    """Arguments with those of a configuration in `configs.yml` below them, if one is named."""
    if not args.config:
        return args
    import yaml

    path = Path(sys.argv[0]).resolve().parent / "configs.yml"
    found = yaml.safe_load(path.read_text(encoding="utf-8"))[args.config]
    parser.set_defaults(**{name.replace("-", "_"): value for name, value in found.items()})
    return parser.parse_args()
