"""Runs a Keras script where nothing can be downloaded: `python examples/tensorflow/offline.py script.py [arguments]`.

MNIST, Fashion-MNIST, CIFAR-10 and IMDB are made up, once, in the files and formats in which Keras keeps them
(`~/.keras/datasets`, or below KERAS_HOME): digits of scikit-learn in MNIST's size, strokes and coloured shapes in the
sizes of the others, and reviews in which some words are good and some bad. Files that are there already stay as they
are. The script itself is not changed. Keras compares the checksums of its files: those that were made here are listed
beside them, and pass.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import runpy
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

MADE = "openipu-made.txt"  # names of files that come from here
SHIFT = 2  # pixels
FASHION = "fashion-mnist"
WORDS = 10000  # that a made-up review may have


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    folder = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "datasets"
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    fill(folder, [name for name in MAKERS if name in text] or ["mnist"])  # a script may load it by a module of its own
    accept(folder)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


def fill(folder: Path, names: list[str], share: int = 1) -> None:
    """Make the data sets that are not there; with a share of 5, of a fifth of their size where the format allows it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        file, write = MAKERS[name]
        if (folder / file).exists():
            continue
        print(f"making {folder / file}", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=folder) as own:  # instances of one job may make the same
            write(Path(own) / file, share)
            if not (folder / file).exists():
                (Path(own) / file).rename(folder / file)
        with (folder / MADE).open("a", encoding="utf-8") as listed:
            listed.write(f"{file}\n")


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


def make_mnist(path: Path, share: int) -> None:
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

    (x_train, y_train), (x_test, y_test) = draw(60000 // share), draw(10000 // share)
    with path.open("wb") as file:
        np.savez(file, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def make_fashion(path: Path, share: int) -> None:
    """A folder with 60,000 and 10,000 images of 28 x 28 pixels: strokes of a kind's own, shifted and with noise."""
    generator = np.random.default_rng(2)
    kinds = generator.random((10, 7, 7)) > 0.6
    path.mkdir(exist_ok=True)
    for name, count in (("train", 60000 // share), ("t10k", 10000 // share)):
        labels = generator.integers(0, 10, count).astype("uint8")
        images = np.zeros((count, 28, 28))
        images[:, 2:23, 2:23] = kinds[labels].repeat(3, 1).repeat(3, 2) * 200
        moves = generator.integers(0, SHIFT + 1, (count, 2))
        moved = np.stack([np.roll(image, move, (0, 1)) for image, move in zip(images, moves, strict=True)])
        pixels = (moved + generator.integers(0, 56, moved.shape)).astype("uint8")
        head = np.array([2051, count, 28, 28], ">u4").tobytes()
        with gzip.open(path / f"{name}-images-idx3-ubyte.gz", "wb", 1) as file:
            file.write(head + pixels.tobytes())
        with gzip.open(path / f"{name}-labels-idx1-ubyte.gz", "wb", 1) as file:
            file.write(np.array([2049, count], ">u4").tobytes() + labels.tobytes())


def make_cifar10(path: Path, share: int) -> None:
    """Five batches of 10,000 images of 32 x 32 pixels to train on, and one to test with: Keras expects no fewer."""
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


def make_imdb(path: Path, share: int) -> None:
    """25,000 and 25,000 reviews, as numbers of words: those of one kind come more often in good ones."""
    generator = np.random.default_rng(3)
    good, bad = np.arange(1, WORDS // 2), np.arange(WORDS // 2, WORDS)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = generator.integers(0, 2, count)
        reviews = np.empty(count, dtype=object)
        for place, label in enumerate(labels):
            length = int(generator.integers(40, 300))
            likely = generator.choice(good if label else bad, length)
            any_word = generator.integers(1, WORDS, length)
            reviews[place] = np.where(generator.random(length) < 0.4, likely, any_word).tolist()
        return reviews, labels

    (x_train, y_train), (x_test, y_test) = draw(25000 // share), draw(25000 // share)
    with path.open("wb") as file:
        np.savez(file, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


MAKERS: dict[str, tuple[str, Callable[[Path, int], None]]] = {  # what scripts call a data set: its file, who makes it
    "mnist": ("mnist.npz", make_mnist),
    "fashion_mnist": (FASHION, make_fashion),
    "cifar10": ("cifar-10-batches-py-target_archive", make_cifar10),
    "imdb": ("imdb.npz", make_imdb),
}

if __name__ == "__main__":
    main()
