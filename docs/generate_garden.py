"""Writes docs/garden.md: what the garden is, and the table of its families, as `openipu garden list` has it.

python docs/generate_garden.py
"""

from __future__ import annotations

from pathlib import Path

from openipu.cli.terminal import format_quantity
from openipu_garden import Family, list_families
from openipu_garden.commands.listing import name_rate
from openipu_garden.figures import count_weights, list_published

PAGE = Path(__file__).with_name("garden.md")

INTRODUCTION = """\
# The model garden

Families of models that IPUs are known by, each in one readable file below `src/openipu_garden/families/`.

```console
$ openipu garden list                              # families, front ends, sizes, published rates
$ openipu garden run resnet-50                     # train a small version to its stated quality
$ openipu garden plan bert-large --system pod16    # the published configuration, modelled beside published
$ openipu garden report vit                        # the report of that plan, as a page to open
```

**`run`** trains a small version as an IPU program in the family's front end. Data are generated: there is something
to learn in them, and nothing is downloaded. Batches are drawn anew, and the quality is measured on draws of another
seed (TGN is asked about each event before it learns from it, MCMC is held against the exact posterior), so a model
that only remembers gets nothing for it. Seeds are fixed, and programs run with PyTorch's operators alone, so that a
run can be repeated. If the quality is not reached, the exit code is 1. `--all` trains every family whose framework is
installed; `make garden` trains all.

**`plan`** takes the configurations that somebody has measured (`src/openipu_garden/figures.csv`, with sources)
through the same code as [`openipu validate`](fidelity.md): the modelled figure with its range, the published one, and
the error. With `--system` those of that machine; where there are none, the main configuration is moved to it. A
family of which no rate is known to us has a configuration of our own choice, and no error.

**`report`** writes `profile.pop` and `report.html` of the first of these plans; with `--small`, of the program that
`run` trains.

All of them take `--json`. The layers are those of `openipu.models`, which `openipu validate` and the examples use
too: what is trained small is what is planned whole. The medical U-Net alone has its small version in Keras' own
layers.

## Families

"Weights" are those of the whole model, as it is planned. "Learns" says what the small version is trained to do,
"goal" how good it must become, and "guess" what chance gives, or the best answer that is the same for all.
"""


def build_page() -> str:
    """The whole page."""
    lines = ["| Family | Front end | Weights | Published rates |", "|---|---|--:|---|"]
    for family in list_families():
        rates = "; ".join(name_rate(row) for row in list_published(family)) or "none known here"
        weights = format_quantity(count_weights(family), "").strip()
        name = f"{family.title} [`{family.name}`](#{family.name})"
        lines.append(f"| {name} | {family.front_end.value} | {weights} | {rates} |")
    sections = [_describe(family) for family in list_families()]
    return "\n".join([INTRODUCTION, *lines, "", *sections])


def _describe(family: Family) -> str:
    goal = family.goal
    return (
        f"### {family.name}\n\n"
        f"{family.title}: {family.paper}; {family.area.value}. The small version learns {family.learns}. "
        f"Goal: {goal}; guess: {goal.guess:.3g}.\n"
    )


if __name__ == "__main__":
    PAGE.write_text(build_page(), encoding="utf-8")
