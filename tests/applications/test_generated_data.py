"""Generated data can be read as applications read them."""

import gzip
import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from applications.data import WRITERS, write_data
from PIL import Image

PLACES = {
    "articles": "data/articles.pkl",
    "merges": "data/merges.txt",
    "annotations": "data/dataset",
    "orders": "data/data.zip",
    "text": "data/text.txt",
}


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if not kind.startswith(("large", "many", "more"))])
def test_every_kind_is_the_same_each_time(kind, tmp_path, tmp_path_factory):
    again = tmp_path_factory.mktemp("again")
    for place in (tmp_path, again):
        write_data(f"{kind}:{PLACES.get(kind, 'data')}", place)
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert files
    assert all((tmp_path / path).read_bytes() == (again / path).read_bytes() for path in files)


def test_articles_are_lists_of_tokens(tmp_path):
    write_data("articles:data/articles.pkl", tmp_path)
    articles = pickle.loads((tmp_path / "data/articles.pkl").read_bytes())
    assert all(len(article) == 512 and 1 <= min(article) <= max(article) <= 16 for article in articles)


def test_captions_name_their_images(tmp_path):
    write_data("captions:data", tmp_path)
    lines = (tmp_path / "data/img_cap.csv").read_text().splitlines()
    for line in lines:
        name, caption = line.split("\t")
        assert Image.open(tmp_path / "data/images" / name).size == (64, 64)
        assert (tmp_path / "data/images" / name).with_suffix(".txt").read_text().strip() == caption
    assert gzip.decompress((tmp_path / "data/vocabulary.txt.gz").read_bytes()).startswith(b"#version")


def test_boxes_lie_beside_their_images(tmp_path):
    write_data("boxes:coco", tmp_path)
    for name in (tmp_path / "coco/val2017.txt").read_text().split():
        assert (tmp_path / "coco" / name).is_file()
        label = tmp_path / "coco" / name.replace("images", "labels").replace(".jpg", ".txt")
        assert len(label.read_text().split()) == 5


def test_fashion_files_hold_what_their_headers_say(tmp_path):
    write_data("fashion:FashionMNIST", tmp_path)
    data = (tmp_path / "FashionMNIST/FashionMNIST/raw/train-images-idx3-ubyte").read_bytes()
    kind, images, height, width = struct.unpack(">4I", data[:16])
    assert (kind, height, width) == (0x0803, 28, 28)
    assert len(data) == 16 + images * height * width


def test_durations_of_letters_add_up_to_the_frames_of_a_sentence(tmp_path):
    write_data("speech:LJSpeech", tmp_path)
    line = (tmp_path / "LJSpeech/list.txt").read_text().splitlines()[0]
    tones, durations, pitch = (torch.load(tmp_path / "LJSpeech" / name) for name in line.split("|")[:3])
    assert tones.shape == (80, int(durations.sum()))
    assert len(pitch) == len(durations) == len(line.split("|")[3])
    assert json.loads((tmp_path / "LJSpeech/pitch.json").read_text()).keys() == {"mean", "std"}
    text, *_ = np.load(tmp_path / "cached_data/0.npy", allow_pickle=True)
    assert len(text) == len(durations)


def test_interactions_have_the_columns_of_jodie_in_the_order_of_time(tmp_path):
    write_data("interactions:JODIE", tmp_path)
    header, *lines = (tmp_path / "JODIE/wikipedia/raw/wikipedia.csv").read_text().splitlines()
    assert header.startswith("user_id,item_id,timestamp,state_label,")
    assert all(len(line.split(",")) == 4 + 172 for line in lines)
    times = [float(line.split(",")[2]) for line in lines]
    assert times == sorted(times)


def test_molecules_have_the_atoms_and_bonds_that_they_count(tmp_path):
    write_data("molecules:qm9", tmp_path)
    entries = (tmp_path / "qm9/qm9.sdf").read_text().split("$$$$\n")[:-1]
    header, *rows = (tmp_path / "qm9/qm9.sdf.csv").read_text().splitlines()
    assert header == "mol_id,cv"
    assert len(rows) == len(entries)
    for entry in entries:
        lines = entry.splitlines()
        atoms, bonds = int(lines[3][:3]), int(lines[3][3:6])
        assert (len(lines), lines[-1]) == (4 + atoms + bonds + 1, "M  END")


def test_tables_of_orders_end_with_five_rows_of_classes(tmp_path):
    write_data("orders:data.zip", tmp_path)
    with zipfile.ZipFile(tmp_path / "data.zip") as packed:
        assert len(packed.namelist()) == 4
        table = np.loadtxt(packed.open("Test_Dst_NoAuction_DecPre_CF_7.txt"))
    assert table.shape == (149, 560)
    assert set(table[-5:].ravel()) == {1, 2, 3}
