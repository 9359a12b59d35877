"""The entries of public applications are complete, and what they need can be made."""

import ctypes
import importlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from applications.data import WRITERS, write_data
from applications.entries import load_applications, read_application
from applications.environment import PACKAGES, STANDINS, prepare_environment
from PIL import Image
from run_applications import build_empty_library

RUN = {"kind": "train", "command": "train.py", "loss": "loss (.*)"}


def test_every_entry_names_packages_and_data_that_are_there():
    applications = load_applications()
    assert len({(entry.folder, entry.tag) for entry in applications}) == len(applications)
    for entry in applications:
        assert entry.packages in PACKAGES
        assert {wanted.partition(":")[0] for wanted in entry.provides} <= set(WRITERS)
        assert entry.runs
        assert all(run.reason for run in entry.runs if run.fault)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "walk"}, "not 'walk'"),
        ({"loss": ""}, "needs a pattern"),
        ({"loss": "(a)(b)"}, "with one group"),
        ({"fault": "nobody's", "reason": "so"}, "a fault is one of"),
        ({"fault": "ours"}, "with a reason"),
        ({"kind": "both"}, "says by which words it has inferred"),
        ({"colour": "red"}, "no \\['colour'\\]"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        read_application({"folder": "a", "tag": "v1", "run": [RUN | change]})


def test_pins_name_one_version_of_each_package():
    for packages in PACKAGES.values():
        names = [pin.partition("==")[0] for pin in (*packages.pinned, *packages.bare)]
        assert len(set(names)) == len(names)


def make_environment(monkeypatch, place, failing):
    """What `prepare_environment` runs, without running it; the step that has the word `failing` in it fails."""
    steps = []

    def run(command, **options):
        steps.append(" ".join(map(str, command)))
        if failing in steps[-1]:
            raise subprocess.CalledProcessError(1, command)
        (place / "swin").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(subprocess, "run", run)
    try:
        prepare_environment("swin", place)
    except subprocess.CalledProcessError:
        return steps, False
    return steps, True


def test_an_environment_is_made_once_and_checked_before_it_counts_as_made(monkeypatch, tmp_path):
    steps, made = make_environment(monkeypatch, tmp_path, failing="timm.scheduler yacs")
    assert not made
    assert [word in step for word, step in zip(("venv", "timm==0.4.5", "yacs", "overlay.py"), steps, strict=False)] == (
        [True] * 4
    )
    assert make_environment(monkeypatch, tmp_path, failing="nothing fails")[1]
    again, made = make_environment(monkeypatch, tmp_path, failing="venv ")
    assert made
    assert len(again) == 1
    assert "overlay.py" in again[0]


def test_generated_images_lie_as_imagenet_does_and_are_the_same_each_time(tmp_path):
    for part in ("first", "second"):
        write_data(f"images:{part}", tmp_path)
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*.JPEG"))
    assert {path.parts[0] for path in files} == {"train", "validation"}
    assert len({path.parts[1] for path in files}) == 2
    assert Image.open(tmp_path / "first" / files[0]).size == (256, 256)
    assert all((tmp_path / "first" / path).read_bytes() == (tmp_path / "second" / path).read_bytes() for path in files)


def test_data_of_an_unknown_kind_are_an_error(tmp_path):
    with pytest.raises(KeyError, match="sounds"):
        write_data("sounds:here", tmp_path)


def test_an_empty_library_can_be_loaded(tmp_path):
    build_empty_library(tmp_path / "build" / "ops.so")
    ctypes.CDLL(str(tmp_path / "build" / "ops.so"))


def test_the_stand_in_for_torch_scatter_adds_by_index(monkeypatch):
    monkeypatch.syspath_prepend(str(STANDINS))
    scatter = importlib.import_module("torch_scatter")
    try:
        rows, index = torch.arange(6.0).view(3, 2), torch.tensor([1, 0, 1])
        assert scatter.scatter_sum(rows, index, dim=0).tolist() == [[2.0, 3.0], [4.0, 6.0]]
        assert scatter.scatter_sum(rows, index, 0, dim_size=3).shape == (3, 2)
    finally:
        del sys.modules["torch_scatter"]


def test_the_stand_in_for_horovod_reduces_over_one_process(monkeypatch):
    monkeypatch.syspath_prepend(str(STANDINS))
    horovod = importlib.import_module("horovod.torch")
    try:
        horovod.init()
        assert (horovod.rank(), horovod.size()) == (0, 1)
        assert horovod.allreduce(3.0, op=horovod.Average) == 3.0
        assert horovod.allgather_object("a") == ["a"]
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:
            del sys.modules[name]


def test_generated_boxes_lie_in_their_images_where_the_lines_say(tmp_path):
    write_data("annotations:data/dataset", tmp_path)
    lines = (tmp_path / "data" / "dataset" / "voc_train.txt").read_text().splitlines()
    for line in lines:
        path, box = line.split()
        left, top, right, bottom, _ = map(int, box.split(","))
        pixels = Image.open(tmp_path / path).convert("L")
        assert pixels.crop((left, top, right, bottom)).getextrema() == (250, 250)


def test_generated_digits_are_as_many_as_whole_steps_need(tmp_path):
    write_data("digits:datasets", tmp_path)
    with np.load(tmp_path / "datasets" / "mnist.npz") as arrays:
        assert {name: len(arrays[name]) for name in arrays} == {
            "x_train": 960,
            "y_train": 960,
            "x_test": 160,
            "y_test": 160,
        }


def test_generated_weather_has_the_same_stations_in_all_files_and_images_of_one_size(tmp_path):
    write_data("weather:dummy_data", tmp_path)
    files = sorted((tmp_path / "dummy_data" / "dummy_raw_data").glob("*.TXT"))
    places = [[line.split()[:4] for line in path.read_text().splitlines()] for path in files]
    assert len(places) == 4
    assert all(found == places[0] for found in places)
    assert len({tuple(place[1:3]) for place in places[0]}) == len(places[0])
    images = [*(tmp_path / "dummy_data").rglob("*.tif")]
    assert {Image.open(path).size for path in images} == {(210, 200)}


def test_the_stand_in_for_libtiff_writes_what_can_be_read_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(STANDINS))
    libtiff = importlib.import_module("libtiff")
    try:
        values = np.arange(6, dtype=np.float32).reshape(2, 3)
        libtiff.TIFF.open(str(tmp_path / "a.tif"), mode="w").write_image(Image.fromarray(values))
        assert (np.asarray(Image.open(tmp_path / "a.tif")) == values).all()
        with pytest.raises(NotImplementedError, match="only written"):
            libtiff.TIFF.open("a.tif")
    finally:
        del sys.modules["libtiff"]
