"""Generated ratings, sales, clicks and returns of shares, in the formats that applications read. See `data.py`."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

SEED = 7
BETWEEN = "\x02"  # entries of a history
SALES_COLUMNS = (  # of Rossmann's tables as their reader prepares them, with the number of categories
    *(("Store", 1115), ("DayOfWeek", 7), ("Promo", 2), ("StateHoliday", 4), ("SchoolHoliday", 2), ("Year", 3)),
    *(("Month", 12), ("Day", 31), ("Week", 52), ("StoreType", 4), ("Assortment", 3), ("CompetitionOpenSinceMonth", 12)),
    *(("CompetitionOpenSinceYear", 23), ("Promo2", 2), ("Promo2SinceWeek", 24), ("Promo2SinceYear", 8)),
    ("PromoInterval", 4),
)


def write_ratings(place: Path, *, users: int = 256, items: int = 64) -> None:
    """Netflix' ratings: user, item and rating in each line; items that a user has rated, and others for validation."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)
    orders = [generator.permutation(items) for _ in range(users)]
    for name, part in (("train", slice(0, 12)), ("valid", slice(12, 16))):
        lines = [f"{user}\t{item}\t{1 + (user + item) % 5}" for user in range(users) for item in orders[user][part]]
        (place / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_sales(place: Path, *, train: int = 2000, validation: int = 200) -> None:
    """Rossmann's sales: numbers of categories, a distance, and sales, which follow the day and the offer."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)
    head = ",".join([*(name for name, _ in SALES_COLUMNS), "CompetitionDistance", "Sales"])
    for name, rows in (("train", train), ("val", validation)):
        table = np.stack([generator.integers(count, size=rows) for _, count in SALES_COLUMNS], axis=1)
        distances = generator.integers(10_000, size=rows)
        sales = 3000 + 1000 * table[:, 1] + 2000 * table[:, 2]
        lines = [",".join(map(str, row)) for row in np.column_stack([table, distances, sales])]
        (place / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def write_clicks(place: Path, *, users: int = 40, items: int = 30, kinds: int = 5, rows: int = 128) -> None:
    """Amazon's books as readers of DIN prepare them: vocabularies, items with their kinds, reviews, and rows of a user,
    an item and a history. A user takes what is of the same kind."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True, exist_ok=True)
    names = {
        "uid": [f"U{user}" for user in range(users)],
        "mid": ["default_mid", *(f"I{item}" for item in range(items))],
        "cat": ["default_cat", *(f"C{kind}" for kind in range(kinds))],
    }
    for key, known in names.items():
        (place / f"{key}_voc.pkl").write_bytes(pickle.dumps({name: number for number, name in enumerate(known)}))
    described = ["default_mid\tdefault_cat", *(f"I{item}\tC{item % kinds}" for item in range(items))]
    (place / "item-info").write_text("\n".join(described) + "\n", encoding="utf-8")
    reviews = [f"U{user}\tI{item}\t5.0\t{user}" for user in range(users) for item in generator.permutation(items)[:5]]
    (place / "reviews-info").write_text("\n".join(reviews) + "\n", encoding="utf-8")
    for name in ("local_train_splitByUser", "local_test_splitByUser"):
        lines = [_write_click(generator, row % 2, users, items, kinds) for row in range(rows)]
        (place / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_click(generator: np.random.Generator, taken: int, users: int, items: int, kinds: int) -> str:
    user = int(generator.integers(users))
    liked = [item for item in range(items) if item % kinds == user % kinds]
    other = [item for item in range(items) if item % kinds != user % kinds]
    item = int(generator.choice(liked if taken else other))
    history = [int(entry) for entry in generator.choice(liked, size=generator.integers(3, 9))]
    past = (BETWEEN.join(f"I{entry}" for entry in history), BETWEEN.join(f"C{entry % kinds}" for entry in history))
    return "\t".join([str(taken), f"U{user}", f"I{item}", f"C{item % kinds}", *past])


def write_returns(path: Path, *, days: int = 64, features: int = 22) -> None:
    """Returns of shares: two columns that are skipped, the return, and features that it depends on."""
    generator = np.random.default_rng(SEED)
    table = generator.normal(size=(days, features))
    lines = ["\t".join(["day", "share", "return", *(f"feature{number}" for number in range(features))])]
    for day, row in enumerate(table):
        lines.append("\t".join([str(day), "0", f"{100 * row[0]:.4f}", *(f"{value:.4f}" for value in row)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


WRITERS = {"ratings": write_ratings, "sales": write_sales, "clicks": write_clicks, "returns": write_returns}
