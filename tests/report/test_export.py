"""JSON keeps its keys; the web page is one file that needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_factory import make_bert_plan, make_cnn_plan

from openipu.errors import ProfileError
from openipu.report import JSON_VERSION, build_profile, summarise, to_json, write_html
from openipu.report.html import SCRIPTS, render_html

TOP_KEYS = (
    "format version modelled name openipu_version created system options program fit memory pipeline advice timing "
    "shares insights slowest_ops guesses planning warnings ops"
)
OP_KEYS = (
    "index name op family phase module line cycles flops moved_bytes scratch_bytes_per_tile first_step step_count "
    "provenance basis ipu stage plan reads writes executions_per_call share_of_peak"
)


def test_json_has_its_documented_keys_and_version() -> None:
    document = to_json(build_profile(make_cnn_plan()))
    assert JSON_VERSION == 1, "a new version: say in the docstring of json_export what changed, then correct this test"
    assert (document["format"], document["version"], document["modelled"]) == ("openipu-profile", 1, True)
    assert set(document) == set(TOP_KEYS.split())
    assert set(document["ops"][0]) == set(OP_KEYS.split())


def test_json_survives_a_round_trip_and_carries_the_figures_of_the_plan() -> None:
    plan = make_cnn_plan()
    document = json.loads(json.dumps(to_json(build_profile(plan)), allow_nan=False))
    assert document["timing"]["call_cycles"] == plan.timing.call_cycles
    assert document["timing"]["samples_per_second"] == pytest.approx(plan.timing.samples_per_second)
    assert document["fit"]["peak_bytes"] == max(document["memory"]["peak_bytes_by_tile"][0]) == plan.fit.peak_bytes
    assert document["fit"]["probability"] == plan.fit.probability
    assert document["ops"][0]["line"] == {"file": "/home/ada/project/model.py", "line": 20, "function": "forward"}
    assert document["ops"][0]["executions_per_call"] == 4
    assert document["guesses"]["ops"] == {"aten.mysterious.default": 1}
    assert document["system"]["figures"]["target"]["tiles"]["value"] == 1472
    assert document["slowest_ops"][0] == summarise(plan).slowest[0].op.index


class LinkFinder(HTMLParser):
    """Collects what a page would fetch, and counts its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]


def test_the_page_fetches_nothing() -> None:
    page = render_html(build_profile(make_cnn_plan()))
    finder = LinkFinder()
    finder.feed(page)
    assert finder.links == ["data:,"]  # an empty icon, so that a browser does not ask for one
    assert not re.search(r"https?://", page)
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|import\(", page)
    assert "default-src 'none'" in page


def test_the_page_says_that_it_is_unofficial_and_modelled() -> None:
    page = render_html(build_profile(make_cnn_plan()))
    assert "<title>resnet · openipu (unofficial)</title>" in page
    footer = re.search(r"<footer>(.*?)</footer>", page, re.DOTALL)
    assert footer is not None
    assert "openipu (unofficial)" in footer[1]
    assert "modelled" in footer[1]


@pytest.mark.parametrize("name", ["</script><b>x</b>", "{{data}} {{style}}", 'a"b<i>&'])
def test_names_of_programs_cannot_break_the_page(name: str) -> None:
    plan = dataclasses.replace(make_cnn_plan(), name=name)
    finder, plain = LinkFinder(), LinkFinder()
    finder.feed(render_html(build_profile(plan)))
    plain.feed(render_html(build_profile(make_cnn_plan())))
    assert finder.tags == plain.tags


def test_every_script_is_in_the_page_and_none_is_forgotten() -> None:
    folder = Path(__file__).parents[2] / "src" / "openipu" / "report" / "web"
    assert sorted(SCRIPTS) == sorted(path.name for path in folder.glob("*.js"))


def test_the_data_block_holds_the_columns_of_the_profile() -> None:
    plan = make_cnn_plan()
    page = render_html(build_profile(plan))
    found = re.search(r'id="data">([^<]*)<', page)
    assert found is not None
    document, read = open_block(zlib.decompress(base64.b64decode(found[1])))
    assert read(document["tables"]["steps"]["cycles"]).tolist() == [step.cycles for step in plan.steps]
    names = read(document["tables"]["ops"]["name"])
    assert [document["strings"][number] for number in names] == [op.name for op in plan.ops]
    assert read(document["memory"][0]["liveByStep"]).tolist() == plan.memory[0].live_by_step.tolist()
    assert document["executions"] == {"forward": 4, "backward": 4, "update": 4}


def test_numbers_above_two_to_the_31_keep_their_value() -> None:
    plan = make_cnn_plan()
    memory = dataclasses.replace(plan.memory[0], live_by_step=plan.memory[0].live_by_step + 2**40)
    profile = build_profile(dataclasses.replace(plan, memory=(memory,)))
    found = re.search(r'id="data">([^<]*)<', render_html(profile))
    assert found is not None
    document, read = open_block(zlib.decompress(base64.b64decode(found[1])))
    assert read(document["memory"][0]["liveByStep"]).tolist() == memory.live_by_step.tolist()


def test_a_page_of_bert_base_stays_small(tmp_path: Path) -> None:
    path = write_html(build_profile(make_bert_plan()), tmp_path / "deep" / "report.html")
    assert path.stat().st_size < 2_000_000
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_is_a_profile_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ProfileError, match=r"Cannot write .*report\.html.*choose another place"):
        write_html(build_profile(make_cnn_plan()), tmp_path / "taken" / "report.html")


def open_block(block: bytes) -> tuple[dict[str, Any], Any]:
    """The JSON of a data block, and a function that opens its columns."""
    (length,) = struct.unpack_from("<I", block)
    start = -(-(4 + length) // 8) * 8

    def read(place: list[Any]) -> Any:
        kind, offset, count = place
        column = np.frombuffer(block, "<f8" if kind.endswith("8") else "<i4", count, start + offset)
        return np.cumsum(column) if kind.startswith("d") else column

    return json.loads(block[4 : 4 + length]), read
