"""Runs a Keras script where nothing can be downloaded: `python examples/tensorflow/offline.py script.py [arguments]`.

MNIST and CIFAR-10 are made up, once, in the files and formats in which Keras keeps them (`~/.keras/datasets`, or below
KERAS_HOME): digits of scikit-learn in MNIST's size, and coloured shapes in CIFAR-10's. Files that are there already
stay as they are. The script itself is not changed. Keras compares the checksums of its files: those that were made here
are listed beside them, and pass.
"""

from __future__ import annotations

import io
import os
import pickle
import runpy
import sys
import tarfile
from pathlib import Path

import numpy as np

MADE = "openipu-made.txt"  # names of files that come from here
SHIFT = 2  # pixels


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    folder = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "datasets"
    folder.mkdir(parents=True, exist_ok=True)
    make(folder, "mnist.npz", make_mnist)
    if "cifar10" in Path(sys.argv[1]).read_text(encoding="utf-8"):
        make(folder, "cifar-10-batches-py-target_archive", make_cifar10)
    accept(folder)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


def make(folder: Path, name: str, write) -> None:
    if (folder / name).exists():
        return
    print(f"making {folder / name}", file=sys.stderr)
    write(folder / f".{name}.part")
    (folder / f".{name}.part").rename(folder / name)
    with (folder / MADE).open("a", encoding="utf-8") as listed:
        listed.write(f"{name}\n")


def accept(folder: Path) -> None:
    """Keras takes what is listed for what it is."""
    from keras.src.utils import file_utils

    listed = folder / MADE
    names = listed.read_text(encoding="utf-8").split() if listed.exists() else []
    original = file_utils.validate_file

    def validate(path: str, *args, **kwargs) -> bool:
        own = Path(path).parent == folder and Path(path).name in names
        return own or original(path, *args, **kwargs)

    file_utils.validate_file = validate


def make_mnist(path: Path) -> None:
    """60,000 and 10,000 digits of 28 x 28 pixels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    large = np.kron(found.images, np.ones((3, 3))) * (255 / 16)  # 8 x 8 pixels become 24 x 24
    images = np.pad(large, ((0, 0), (2, 2), (2, 2)))
    generator = np.random.default_rng(0)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = generator.integers(0, len(images), count)
        moves = generator.integers(-SHIFT, SHIFT + 1, (count, 2))
        drawn = np.stack([np.roll(images[place], move, (0, 1)) for place, move in zip(chosen, moves, strict=True)])
        return drawn.astype("uint8"), found.target[chosen].astype("uint8")

    (x_train, y_train), (x_test, y_test) = draw(60000), draw(10000)
    with path.open("wb") as file:
        np.savez(file, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def make_cifar10(path: Path) -> None:
    """Five batches of 10,000 images of 32 x 32 pixels to train on, and one to test with."""
    generator = np.random.default_rng(1)
    colours = generator.integers(60, 256, (10, 3))
    with tarfile.open(path, "w") as archive:
        for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
            labels = generator.integers(0, 10, 10000)
            images = generator.integers(0, 90, (10000, 3, 32, 32), dtype="uint8")
            for place, label in enumerate(labels):  # a square of the class's colour, and of a size that it has
                size = 6 + 2 * (label % 5)
                top, left = generator.integers(0, 32 - size, 2)
                images[place, :, top : top + size, left : left + size] = colours[label][:, None, None]
            batch = {b"data": images.reshape(10000, -1), b"labels": labels.tolist()}
            content = pickle.dumps(batch, protocol=4)
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
