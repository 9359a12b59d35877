"""Lets the built documentation be searched from disk: `python tools/finish_site.py site`.

In: the folder that the builder has made. Out: the search's index beside it as a script, because a page that was opened
from disk may load scripts, but no JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def finish(site: Path) -> None:
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    (site / "search.js").write_text(f"var __index = {json.dumps(index, ensure_ascii=False)};\n", encoding="utf-8")


if __name__ == "__main__":
    finish(Path(sys.argv[1]))
