"""Generated molecules, order books and weather, in the formats that applications read. See `data.py`."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

SEED = 7
ATOMS = ("C", "N", "O", "F")


def write_molecules(place: Path, *, molecules: int = 96) -> None:
    """QM9: chains of eight atoms in an SDF file, and a table whose heat capacity grows with their numbers."""
    generator = np.random.default_rng(SEED)
    place.mkdir(parents=True)
    entries, lines = [], ["mol_id,cv"]
    for number in range(molecules):
        atoms = [ATOMS[kind] for kind in generator.integers(len(ATOMS), size=8)]
        kinds = generator.integers(1, 4, size=len(atoms) - 1)
        entries.append(_write_chain(f"gdb_{number + 1}", atoms, kinds))
        lines.append(f"gdb_{number + 1},{0.1 * sum(map(ATOMS.index, atoms)):.2f}")
    (place / "qm9.sdf").write_text("".join(entries), encoding="utf-8")
    (place / "qm9.sdf.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_chain(name: str, atoms: list[str], kinds: np.ndarray) -> str:
    """One molecule: a head of three lines, counts, atoms with their places, bonds."""
    lines = [name, "", "", f"{len(atoms):3d}{len(kinds):3d}  0  0  0  0  0  0  0  0999 V2000"]
    for place, atom in enumerate(atoms):
        lines.append(f"{place:10.4f}{0:10.4f}{0:10.4f} {atom:<3} 0  0  0  0  0  0  0  0  0  0  0  0")
    lines += [f"{place + 1:3d}{place + 2:3d}{kind:3d}  0  0  0  0" for place, kind in enumerate(kinds)]
    return "\n".join([*lines, "M  END", "$$$$", ""])


def write_orders(path: Path, *, train: int = 8060, test: int = 560) -> None:
    """FI-2010: a zip file of tables, 149 rows and a column for each event: 40 of the order book first, which rise and
    fall, and in the last five rows whether prices do (1, 2 or 3)."""
    generator = np.random.default_rng(SEED)
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"Train_Dst_NoAuction_DecPre_CF_7.txt": train}
    names |= {f"Test_Dst_NoAuction_DecPre_CF_{number}.txt": test for number in (7, 8, 9)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, events in names.items():
            table = np.zeros((149, events))
            direction = 1 + np.arange(events) // 40 % 3
            table[:40] = 0.1 * direction + generator.normal(0, 0.01, (40, events))
            table[-5:] = direction
            text = "\n".join(" ".join(f"{value:.3g}" for value in row) for row in table)
            packed.writestr(zipfile.ZipInfo(name), text + "\n")


def write_weather(place: Path, *, stations: int = 48, height: int = 200, width: int = 210) -> None:
    """A day of weather: a line for each station, with its place in degrees and minutes and what it has measured, in a
    file for each element; how high the land lies, and its latitude, as images."""
    generator = np.random.default_rng(SEED)
    folders = {name: place / f"dummy_{name}" for name in ("raw_data", "resource", "latitude")}
    for folder in (*folders.values(), place.parent / "test_result"):
        folder.mkdir(parents=True)
    minutes = generator.permutation(60 * 105)[:stations]  # on a grid of one degree by a degree and three quarters
    heights = generator.integers(100, 5000, stations)
    elements = {  # mean, highest and lowest of the day, in tenths
        "PRS-10004": (9900, 9920, 9880),
        "RHU-13003": (60, 60, 60),
        "TEM-12001": (150, 210, 90),
        "WIN-11002": (20, 20, 20),
    }
    for name, usual in elements.items():
        lines = []
        for number, (minute, metres) in enumerate(zip(minutes, heights, strict=True)):
            north, east = divmod(int(minute), 105)
            measured = " ".join(str(value + int(generator.integers(-8, 9))) for value in usual)
            where = f"{2000 + north} {10000 + east // 60 * 100 + east % 60} {metres}"
            lines.append(f"{50000 + number} {where} 2021 4 3 {measured}")
        path = folders["raw_data"] / f"SURF_CLI_CHN_MUL_DAY-{name}-20210403.TXT"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    land = generator.uniform(100, 500, (height, width)).astype(np.float32)
    Image.fromarray(land).save(folders["resource"] / "dummy_dem.tif")
    latitude = np.repeat(np.linspace(21, 20, height, dtype=np.float32)[:, None], width, axis=1)
    Image.fromarray(latitude).save(folders["latitude"] / "dummy_lati.tif")
