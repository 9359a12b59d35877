"""Generated data in the formats that applications read: small, seeded, learnable.

In: "kind:path" of an entry and the application's folder. Out: files there.
"""

from __future__ import annotations

import gzip
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from applications import commerce, graphs
from applications.sequences import write_interactions, write_speech, write_text
from applications.tables import write_molecules, write_orders, write_weather

SEED = 7
MERGES = ("#version: 0.2", "r e", "e d</w>", "g r", "p i", "c t", "u r")  # of letters, in CLIP's vocabulary


def write_data(wanted: str, folder: Path) -> None:
    """Raises KeyError for a kind that is not known."""
    kind, _, path = wanted.partition(":")
    WRITERS[kind](folder / path)


def write_images(place: Path, *, classes: int = 2, each: int = 8, size: int = 256) -> None:
    """ImageNet's folders: train and validation, one folder for each class, JPEGs inside. Classes differ in colour."""
    generator = np.random.default_rng(SEED)
    for part in ("train", "validation"):
        for index in range(classes):
            folder = place / part / f"n{index:08d}"
            folder.mkdir(parents=True)
            for number in range(each):
                draw_image(generator, size, hue=index / classes).save(folder / f"{part}_{index}_{number}.JPEG")


def write_more_images(place: Path) -> None:
    """The same for steps of some dozen: small ones, which are drawn larger as they are read."""
    write_images(place, each=64, size=64)


def write_many_images(place: Path) -> None:
    """The same for loaders that take a thousand at once."""
    write_images(place, each=512, size=32)


def draw_image(generator: np.random.Generator, size: int, hue: float) -> Image.Image:
    """Noise around a colour."""
    colour = 255 * np.array([hue, 1 - hue, 0.5])
    return Image.fromarray(np.clip(generator.normal(colour, 20, (size, size, 3)), 0, 255).astype(np.uint8))


def write_articles(path: Path, *, articles: int = 8, length: int = 512, words: int = 16) -> None:
    """A pickled list of articles, each a list of token numbers: few words, one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        pickle.dumps([[(start + step) % words + 1 for step in range(length)] for start in range(articles)])
    )


def write_captions(place: Path, *, images: int = 32, size: int = 64) -> None:
    """Conceptual Captions: images, a line "name<tab>caption" for each, and CLIP's vocabulary of merged letters. Beside
    each image its caption lies once more, as others list pairs."""
    generator = np.random.default_rng(SEED)
    (place / "images").mkdir(parents=True)
    colours, lines = ("red", "green"), []
    for number in range(images):
        name = f"{number}.jpg"
        draw_image(generator, size, hue=number % 2).save(place / "images" / name)
        caption = f"a {colours[number % 2]} picture"
        lines.append(f"{name}\t{caption}")
        (place / "images" / f"{number}.txt").write_text(caption + "\n", encoding="utf-8")
    (place / "img_cap.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (place / "vocabulary.txt.gz").write_bytes(gzip.compress("\n".join(MERGES).encode(), mtime=0))


def write_merges(path: Path) -> None:
    """The same vocabulary as plain text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(MERGES) + "\n", encoding="utf-8")


def write_boxes(place: Path, *, images: int = 16, size: int = 96) -> None:
    """COCO as detectors list it: images, a line "class x y width height" for each box of one, and lists of images."""
    generator = np.random.default_rng(SEED)
    for part in ("train2017", "val2017"):
        (place / "images" / part).mkdir(parents=True)
        (place / "labels" / part).mkdir(parents=True)
        names = [f"{number:012d}" for number in range(images)]
        for name in names:
            draw_image(generator, size, hue=0.5).save(place / "images" / part / f"{name}.jpg")
            (place / "labels" / part / f"{name}.txt").write_text("3 0.5 0.5 0.4 0.4\n", encoding="utf-8")
        (place / f"{part}.txt").write_text("".join(f"./images/{part}/{name}.jpg\n" for name in names))


def write_annotations(place: Path, *, images: int = 32, size: int = 96) -> None:
    """PASCAL VOC as YOLO v3 lists it: a line "path left,top,right,bottom,class" for each image, with its path from the
    folder two above. Boxes are bright."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)
    lines = []
    for number in range(images):
        pixels = np.array(draw_image(generator, size, hue=0.2))
        left, top = generator.integers(8, size // 2, 2)
        pixels[top : top + 32, left : left + 32] = 250
        Image.fromarray(pixels).save(place / f"{number}.png")
        path = "/".join((*place.parts[-2:], f"{number}.png"))
        lines.append(f"{path} {left},{top},{left + 32},{top + 32},3")
    for part in ("train", "test"):
        (place / f"voc_{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_fashion(place: Path, *, images: int = 256, size: int = 28) -> None:
    """Fashion-MNIST in IDX files: ten classes that differ in how bright they are."""
    generator = np.random.default_rng(SEED)
    raw = place / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        labels = (np.arange(images) % 10).astype(np.uint8)
        pictures = np.clip(generator.normal(25 * labels[:, None, None], 8, (images, size, size)), 0, 255)
        header = struct.pack(">4I", 0x0803, images, size, size)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(header + pictures.astype(np.uint8).tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x0801, images) + labels.tobytes())


def write_binary_digits(place: Path, *, train: int = 400, test: int = 64, size: int = 28) -> None:
    """Binarised MNIST where Keras keeps its downloads: a line of zeros and ones for each image, rows of it by class."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)
    rows = np.repeat(np.arange(size) % 10, size)
    for part, images in (("train", train), ("test", test)):
        noise = generator.random((images, size * size)) < 0.05
        pixels = (rows[None] == np.arange(images)[:, None] % 10) | noise
        lines = [" ".join(map(str, line)) for line in pixels.astype(int)]
        (place / f"binarised_mnist_{part}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_digits(place: Path, *, train: int = 960, test: int = 160, size: int = 28) -> None:
    """MNIST where Keras keeps its downloads: ten classes that differ in which rows are bright."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)
    arrays = {}
    for part, images in (("train", train), ("test", test)):
        labels = (np.arange(images) % 10).astype(np.uint8)
        bright = np.arange(size)[None, :, None] % 10 == labels[:, None, None]
        arrays[f"x_{part}"] = np.clip(200 * bright + generator.normal(20, 8, (images, size, size)), 0, 255).astype(
            np.uint8
        )
        arrays[f"y_{part}"] = labels
    np.savez(place / "mnist.npz", **arrays)


def write_large_fashion(place: Path) -> None:
    """The same in the size that loaders of many iterations ask for."""
    write_fashion(place, images=80_000)


WRITERS: dict[str, Callable[[Path], None]] = (
    graphs.WRITERS
    | commerce.WRITERS
    | {
        "annotations": write_annotations,
        "articles": write_articles,
        "binary_digits": write_binary_digits,
        "boxes": write_boxes,
        "captions": write_captions,
        "digits": write_digits,
        "fashion": write_fashion,
        "images": write_images,
        "interactions": write_interactions,
        "large_fashion": write_large_fashion,
        "many_images": write_many_images,
        "merges": write_merges,
        "more_images": write_more_images,
        "molecules": write_molecules,
        "orders": write_orders,
        "speech": write_speech,
        "text": write_text,
        "weather": write_weather,
    }
)
