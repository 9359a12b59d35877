"""Generated graphs in the formats that data sets of PyTorch Geometric, and applications of it, read. See `data.py`.

In: the folder of a data set. Out: the files that its class looks for: raw ones where those can be written quickly, and
processed ones for QM9, of which an application wants a molecule above number 123,000.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

SEED = 7


def write_planetoid(place: Path, *, name: str, nodes: int, features: int, classes: int, tested: int) -> None:
    """Citations: papers of a class cite each other, and share words."""
    import scipy.sparse as sparse

    generator = np.random.default_rng(SEED)
    label = np.arange(nodes) % classes
    words = generator.random((nodes, features)) < 0.02
    words |= (np.arange(features) % classes == label[:, None]) & (generator.random((nodes, features)) < 0.2)
    graph = {node: list({(node + classes * step) % nodes for step in (1, 2, 3)}) for node in range(nodes)}
    for node, cited in list(graph.items()):
        for other in cited:
            graph[other].append(node)
    known, shown = nodes - tested, 20 * classes
    kinds = np.eye(classes, dtype=np.int32)[label]
    raw = place / name / "raw"
    raw.mkdir(parents=True)
    parts = {
        "x": sparse.csr_matrix(words[:shown].astype(np.float32)),
        "allx": sparse.csr_matrix(words[:known].astype(np.float32)),
        "tx": sparse.csr_matrix(words[known:].astype(np.float32)),
        "y": kinds[:shown],
        "ally": kinds[:known],
        "ty": kinds[known:],
        "graph": graph,
    }
    for part, value in parts.items():
        (raw / f"ind.{name.lower()}.{part}").write_bytes(pickle.dumps(value))
    (raw / f"ind.{name.lower()}.test.index").write_text("".join(f"{node}\n" for node in range(known, nodes)))


def write_cora(place: Path) -> None:
    write_planetoid(place, name="Cora", nodes=900, features=200, classes=7, tested=200)


def write_pubmed(place: Path) -> None:
    write_planetoid(place, name="PubMed", nodes=800, features=100, classes=3, tested=150)


def write_tu(place: Path, *, name: str, graphs: int, least: int, most: int, bonds: bool) -> None:
    """Molecules of the TU collection: rings and chains of atoms. Rings have more atoms of the second kind."""
    generator = np.random.default_rng(SEED)
    edges, indicator, atoms, labels, kinds = [], [], [], [], []
    for graph in range(graphs):
        size, ring = int(generator.integers(least, most + 1)), graph % 2
        first = len(indicator) + 1
        for place_in in range(size if ring else size - 1):
            ends = (first + place_in, first + (place_in + 1) % size)
            edges += [ends, ends[::-1]]
            kinds += [ring, ring]
        indicator += [graph + 1] * size
        atoms += [int(atom) for atom in np.append(generator.random(size - 3) < 0.3 + 0.4 * ring, [0, 1, 2])]
        labels.append(ring)
    raw = place / name / "raw"
    raw.mkdir(parents=True)
    columns: dict[str, list[object]] = {
        "A": [f"{one}, {other}" for one, other in edges],
        "graph_indicator": list(indicator),
        "node_labels": list(atoms),
        "graph_labels": list(labels),
    } | ({"edge_labels": list(kinds)} if bonds else {})
    for part, lines in columns.items():
        (raw / f"{name}_{part}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_mutag(place: Path) -> None:
    write_tu(place, name="MUTAG", graphs=188, least=10, most=28, bonds=True)


def write_nci1(place: Path) -> None:
    write_tu(place, name="NCI1", graphs=1700, least=8, most=50, bonds=False)


def write_qm9(place: Path, *, molecules: int, most: int, only: tuple[str, ...] = ()) -> None:
    """Molecules in space: all that they are predicted by follows from their atoms. `only` some attributes of each make
    the whole number of them quicker to read."""
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(SEED)
    sizes = torch.randint(3, most + 1, (molecules,), generator=generator)
    sizes[:2] = most  # so that the first mini-batches are as large as any
    atoms, bonds = int(sizes.sum()), 2 * int((sizes - 1).sum())
    owner = torch.repeat_interleave(torch.arange(molecules), sizes)
    atom = torch.tensor([1, 6, 7, 8])[torch.randint(4, (atoms,), generator=generator)]
    starts = sizes.cumsum(0) - sizes
    within = torch.arange(atoms) - starts[owner]
    chained = within[within > 0]  # of each atom but the first, the one before it
    ends = torch.stack([chained - 1, chained])
    weight = torch.zeros(molecules).index_add(0, owner, atom.float())
    per_bond = torch.cat([torch.zeros(1, dtype=torch.long), (2 * (sizes - 1)).cumsum(0)])
    data = Data(
        x=torch.nn.functional.one_hot(atom % 5, 11).float(),
        edge_index=torch.stack([ends, ends.flip(0)], dim=2).reshape(2, -1),
        edge_attr=torch.eye(4)[torch.zeros(bonds, dtype=torch.long)],
        y=(weight / 20)[:, None].repeat(1, 19),
        pos=1.4 * within[:, None] + 0.3 * torch.randn(atoms, 3, generator=generator),
        z=atom,
        idx=torch.arange(molecules),
    )
    per_atom = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    each = torch.arange(molecules + 1)
    by_atom, by_bond, by_molecule = ("x", "pos", "z"), ("edge_index", "edge_attr"), ("y", "idx")
    slices = dict.fromkeys(by_atom, per_atom) | dict.fromkeys(by_bond, per_bond) | dict.fromkeys(by_molecule, each)
    held = {key: value for key, value in data.to_dict().items() if not only or key in only}
    slices = {key: slices[key] for key in held}
    (place / "raw").mkdir(parents=True)
    (place / "processed").mkdir()
    torch.save([], place / "raw" / "qm9_v3.pt")
    torch.save((held, slices, Data), place / "processed" / "data_v3.pt")


def write_few_molecules(place: Path) -> None:
    write_qm9(place, molecules=1500, most=9)


def write_all_molecules(place: Path) -> None:
    write_qm9(place, molecules=123_300, most=4, only=("z", "pos", "y"))


def write_reddit(place: Path, *, nodes: int = 6000, classes: int = 41) -> None:
    """Posts: those of a community are linked, and have alike words."""
    import scipy.sparse as sparse

    generator = np.random.default_rng(SEED)
    label = np.sort(np.arange(nodes) % classes)
    means = generator.normal(size=(classes, 602))
    links = [(node, min(node + step, nodes - 1)) for node in range(nodes) for step in (1, 2, 5)]
    row, column = np.array([pair for pair in links if pair[0] != pair[1]]).T
    adjacency = sparse.coo_matrix((np.ones(len(row)), (row, column)), shape=(nodes, nodes))
    raw = place / "raw"
    raw.mkdir(parents=True)
    np.savez(
        raw / "reddit_data.npz",
        feature=(means[label] + generator.normal(size=(nodes, 602))).astype(np.float32),
        label=label,
        node_types=1 + (generator.random(nodes) > 0.7) + (generator.random(nodes) > 0.8),
    )
    sparse.save_npz(raw / "reddit_graph.npz", (adjacency + adjacency.T).tocoo())


def write_imdb(place: Path, *, movies: int = 1100, directors: int = 300, actors: int = 500) -> None:
    """Movies of three kinds, each with a director and three actors who keep to a kind."""
    import scipy.sparse as sparse

    generator = np.random.default_rng(SEED)
    kind = np.arange(movies) % 3
    everyone = movies + directors + actors
    adjacency = sparse.lil_matrix((everyone, everyone))
    for movie in range(movies):
        people = [movies + (3 * int(generator.integers(directors // 3)) + kind[movie])]
        people += [movies + directors + 3 * int(generator.integers(actors // 3)) + kind[movie] for _ in range(3)]
        for person in people:
            adjacency[movie, person] = adjacency[person, movie] = 1
    raw = place / "raw"
    raw.mkdir(parents=True)
    sparse.save_npz(raw / "adjM.npz", adjacency.tocsr())
    for number, count in enumerate((movies, directors, actors)):
        words = (generator.random((count, 60)) < 0.05) | ((np.arange(60) % 3) == (np.arange(count) % 3)[:, None])
        sparse.save_npz(raw / f"features_{number}.npz", sparse.csr_matrix(words.astype(np.float32)))
    np.save(raw / "labels.npy", kind)
    order = generator.permutation(movies)
    np.savez(raw / "train_val_test_idx.npz", train_idx=order[:400], val_idx=order[400:600], test_idx=order[600:])


def write_facts(place: Path, *, entities: int = 40, relations: int = 4) -> None:
    """FB15k-237 as it is split for induction: facts of one set of entities, and of another one for the test. The tail
    of a fact follows from its head and the relation."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)

    def tell(prefix: str, part: float) -> str:
        facts = [(head, relation) for head in range(entities) for relation in range(relations)]
        kept = [fact for fact in facts if generator.random() < part]
        told = [
            f"{prefix}{head}\tr{relation}\t{prefix}{(head + 2 * relation + 1) % entities}" for head, relation in kept
        ]
        return "\n".join(told) + "\n"

    for name, prefix, part in (
        ("train", "a", 0.8),
        ("valid", "a", 0.1),
        ("train_ind", "b", 0.8),
        ("test_ind", "b", 0.1),
    ):
        (place / f"{name}.txt").write_text(tell(prefix, part), encoding="utf-8")
    (place / "relations.dict").write_text("".join(f"{number}\tr{number}\n" for number in range(relations)))


def write_transactions(place: Path, *, transactions: int = 400) -> None:
    """IEEE-CIS fraud detection: fraud comes from few cards, and in amounts of its own."""
    import pandas

    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)
    fraud = (generator.random(transactions) < 0.2).astype(int)
    columns: dict[str, object] = {
        "TransactionID": np.arange(transactions),
        "isFraud": fraud,
        "TransactionDT": 1000 + 60 * np.arange(transactions),
        "TransactionAmt": 10.0 ** (1 + fraud + 0.2 * generator.random(transactions)),
        "ProductCD": np.where(generator.random(transactions) < 0.5, "W", "C"),
    }
    for card in range(1, 7):
        columns[f"card{card}"] = 100 * card + 2 * generator.integers(5, size=transactions) + fraud
    columns |= {f"addr{place_}": generator.integers(4, size=transactions) for place_ in (1, 2)}
    columns |= {f"{side}_emaildomain": generator.choice(["a.com", "b.com"], transactions) for side in "PR"}
    columns |= {f"C{number}": generator.random(transactions) for number in range(1, 4)}
    columns |= {f"M{number}": generator.choice(["T", "F"], transactions) for number in range(1, 10)}
    identity: dict[str, object] = {
        "TransactionID": np.arange(transactions),
        "DeviceType": generator.choice(["mobile", "desktop"], transactions),
        "DeviceInfo": generator.choice(["Windows", "MacOS"], transactions),
    }
    identity |= {f"id_{number:02d}": generator.integers(3, size=transactions) for number in range(1, 39)}
    for name, table in (("transaction", columns), ("identity", identity)):
        frame = pandas.DataFrame(table)
        frame.to_csv(place / f"train_{name}.csv", index=False)
        later = frame.drop(columns="isFraud", errors="ignore").head(20)  # not in the order of time, and without labels
        later.assign(TransactionID=later["TransactionID"] + transactions).to_csv(
            place / f"test_{name}.csv", index=False
        )


WRITERS: dict[str, Callable[[Path], None]] = {
    "cora": write_cora,
    "facts": write_facts,
    "imdb": write_imdb,
    "mutag": write_mutag,
    "nci1": write_nci1,
    "pubmed": write_pubmed,
    "qm9": write_few_molecules,
    "qm9-whole": write_all_molecules,
    "reddit": write_reddit,
    "transactions": write_transactions,
}
