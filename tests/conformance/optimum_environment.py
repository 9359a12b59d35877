"""The environment of the original optimum-graphcore: its wheel, the Transformers of its time, and our packages.

In: a directory. Out: its Python, ready to run. It is made once, and again when the pins below change. Our packages come
in as links to `src/`, all but our own `optimum.graphcore`, whose place the wheel takes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
TORCH = "torch==2.13.0"
PINNED = (
    "transformers==4.29.2",
    "tokenizers==0.13.3",
    "huggingface_hub==0.25.2",
    "accelerate==0.34.2",
    "datasets==2.21.0",
    "pyarrow==16.1.0",
    "pandas==2.2.3",
    "numpy==1.26.4",
    "scipy==1.11.4",
    "typeguard==4.6.0",
    "sentencepiece==0.2.2",
    "coloredlogs==15.0.1",
    "pytest==9.2.0",
    "parameterized==0.9.0",
    "pillow",
    "msgspec",
    "rich>=13.7",
    "tqdm>=4.66",
)
# Without their requirements: they ask for a NumPy before 1.24, which is older than ours may be, and for compilers.
BARE = ("optimum-graphcore==0.7.1", "optimum==1.6.1")


def prepare_environment(place: Path) -> Path:
    """The Python of the environment at `place`, which is made if it is not there or not up to date."""
    python, stamp = place / "bin" / "python", place / "made-of"
    recipe = hashlib.sha256(repr((TORCH, PINNED, BARE, sys.version_info[:2])).encode()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != recipe:
        print(f"making {place}: this takes a few minutes, once", file=sys.stderr)
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        for packages in ([TORCH], [*PINNED], ["--no-deps", *BARE]):
            install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *packages]
            subprocess.run(install, check=True)
        stamp.write_text(recipe)
    _link_packages(place)
    return python


def _link_packages(place: Path) -> None:
    links = place / "openipu-packages"
    shutil.rmtree(links, ignore_errors=True)
    links.mkdir()
    for package in SOURCE.iterdir():
        if package.is_dir() and package.name != "optimum" and (package / "__init__.py").is_file():
            (links / package.name).symlink_to(package)
    libraries = next((place / "lib").glob("python*/site-packages"))
    (libraries / "openipu.pth").write_text(f"{links}\n")
