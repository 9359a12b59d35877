"""Generated graphs are read by the data sets of PyTorch Geometric whose files they are."""

import json
import sys

import pytest
import torch
from applications.entries import Run
from applications.environment import STANDINS
from run_applications import execute
from torch_geometric import datasets
from torch_geometric.loader import DataLoader

from applications import graphs

TRAINING = {"kind": "train", "command": "x", "loss": "loss ([0-9.]+)"}


def test_citations_are_read_by_their_data_set(tmp_path):
    graphs.write_cora(tmp_path)
    [cora] = datasets.Planetoid(str(tmp_path), "Cora")
    assert (cora.num_nodes, cora.num_features, int(cora.y.max()) + 1) == (900, 200, 7)
    assert int(cora.train_mask.sum()) == 140
    assert int(cora.val_mask.sum()) == 500
    assert int(cora.test_mask.sum()) == 200
    source, target = cora.edge_index
    assert (cora.y[source] == cora.y[target]).float().mean() > 0.5


def test_molecules_of_the_tu_collection_are_read(tmp_path):
    graphs.write_mutag(tmp_path)
    mutag = datasets.TUDataset(str(tmp_path), "MUTAG")
    assert (len(mutag), mutag.num_classes, mutag.num_features, mutag.num_edge_features) == (188, 2, 3, 2)
    assert all(graph.num_edges == 2 * (graph.num_nodes - 1 + int(graph.y)) for graph in mutag)


def test_molecules_in_space_are_read(tmp_path):
    graphs.write_qm9(tmp_path, molecules=50, most=5)
    qm9 = datasets.QM9(str(tmp_path))
    assert len(qm9) == 50
    for molecule in qm9:
        assert molecule.pos.shape == (len(molecule.z), 3)
        assert molecule.edge_index.max() == molecule.num_nodes - 1
        assert molecule.y[0, 4] == pytest.approx(float(molecule.z.sum()) / 20)
    assert next(iter(DataLoader(qm9, batch_size=8))).num_graphs == 8


def test_posts_and_movies_are_read(tmp_path):
    graphs.write_reddit(tmp_path / "reddit", nodes=300, classes=41)
    [reddit] = datasets.Reddit(str(tmp_path / "reddit"))
    assert (reddit.num_nodes, reddit.num_features) == (300, 602)
    assert reddit.is_undirected()
    graphs.write_imdb(tmp_path / "imdb", movies=60, directors=30, actors=30)
    [imdb] = datasets.IMDB(str(tmp_path / "imdb"))
    assert set(imdb.edge_types) == {
        ("movie", "to", "director"),
        ("movie", "to", "actor"),
        ("director", "to", "movie"),
        ("actor", "to", "movie"),
    }


def test_tables_and_facts_have_what_their_programs_look_for(tmp_path):
    graphs.write_transactions(tmp_path / "fraud", transactions=30)
    header = (tmp_path / "fraud" / "train_transaction.csv").read_text().splitlines()[0].split(",")
    assert {"TransactionID", "isFraud", "card6", "R_emaildomain", "M9"} <= set(header)
    assert "isFraud" not in (tmp_path / "fraud" / "test_transaction.csv").read_text()
    graphs.write_facts(tmp_path / "facts")
    for line in (tmp_path / "facts" / "train.txt").read_text().splitlines():
        head, relation, tail = (int(word[1:]) for word in line.split("\t"))
        assert tail == (head + 2 * relation + 1) % 40


def test_a_run_is_ended_once_it_has_printed_enough(tmp_path):
    program = (
        "import time\nfor step in range(10000):\n    print('loss', 9 - step / 1000, flush=True)\n    time.sleep(0.01)\n"
    )
    run = Run(**TRAINING, enough=3)
    code, output = execute([sys.executable, "-c", program], tmp_path, {}, 600, run)
    assert code == 0
    assert "KeyboardInterrupt" in output
    assert "loss 9.0" in output
    quick = execute([sys.executable, "-c", "print('loss 1'); raise SystemExit(3)"], tmp_path, {}, 600, run)
    assert quick[0] == 3


def test_a_notebook_is_run_cell_by_cell_without_the_lines_of_ipython(tmp_path):
    cells = [["%pip install x\n", "a = 2\n", "a"], ["!ls\n", "def double(x):\n", "    return 2 * x\n"], ["double(a)"]]
    code = [{"cell_type": "code", "source": source} for source in cells]
    book = {"cells": [{"cell_type": "markdown", "source": ["# no code"]}, *code]}
    (tmp_path / "book.ipynb").write_text(json.dumps(book))
    command = [sys.executable, str(STANDINS / "run_notebook.py"), "book.ipynb"]
    code_of_exit, output = execute(command, tmp_path, {}, 600, Run(kind="infer", command="x"))
    assert code_of_exit == 0, output
    assert output.splitlines() == ["cell 0 of 3: a = 2", "cell 2 of 3: double(a) = 4"]


def test_reductions_by_index_are_those_of_the_package(monkeypatch):
    monkeypatch.syspath_prepend(str(STANDINS))
    import torch_scatter

    source, index = torch.tensor([[1.0, 2.0, 5.0], [-1.0, -2.0, 4.0]]), torch.tensor([0, 0, 2])
    expected = {
        "sum": [[3, 0, 5], [-3, 0, 4]],
        "mean": [[1.5, 0, 5], [-1.5, 0, 4]],
        "max": [[2, 0, 5], [-1, 0, 4]],
        "min": [[1, 0, 5], [-2, 0, 4]],
        "mul": [[2, 1, 5], [2, 1, 4]],
    }
    for reduce, values in expected.items():
        assert torch_scatter.scatter(source, index, dim=1, dim_size=3, reduce=reduce).tolist() == values
