"""`openipu validate` as a user calls it."""

from __future__ import annotations

import json

import pytest

from openipu.cli import main

# Facts of Jia et al. 2019, arXiv:1912.03413, and of a public notebook of on-tile timings on Bow.
FIGURES = """\
id,kind,system,ipus,workload,params,metric,value,unit,source,sdk
JIA-006,micro,C2 Mk1 GC2 1.6GHz,1,"tile-to-tile copy, minimum message","{""where"":""on-chip""}",latency,0.133,us,Jia,
AMP-002,micro,Bow IPU 1.85GHz,1,on-tile AMP matmul Nx16 by 16x16,"{""N"":32}",cycles per call,461.3,cycles,notebook,
OWN-001,micro,Bow IPU 1.85GHz,1,on-tile AMP matmul Nx16 by 16x16,"{""N"":40}",cycles per call,,cycles,,
OWN-002,micro,Bow IPU 1.85GHz,1,walk the dog,{},latency,3,us,,
"""


@pytest.fixture
def figures(tmp_path):
    path = tmp_path / "figures.csv"
    path.write_text(FIGURES, encoding="utf-8")
    return path


def test_the_summary_tells_errors_and_names_what_is_not_modelled(figures, capsys):
    assert main(["validate", "--figures", str(figures)]) == 0
    printed = capsys.readouterr().out
    assert "on-tile kernels" in printed
    assert "OWN-002" in printed
    assert "no predictor knows the workload 'walk the dog'" in printed


def test_rows_show_prediction_range_published_value_and_error(figures, capsys):
    assert main(["validate", "--figures", str(figures), "--rows", "--only", "jia"]) == 0
    printed = capsys.readouterr().out
    assert "0.1325" in printed
    assert "0.133" in printed
    assert "-0.4 %" in printed
    assert "AMP-002" not in printed


def test_json_holds_every_row_and_both_summaries(figures, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["validate", "--figures", str(figures), "--json", str(out)]) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    rows = {row["id"]: row for row in document["rows"]}
    assert rows["OWN-001"]["predicted"] > 0
    assert rows["OWN-001"]["published"] is None
    assert rows["OWN-002"]["predicted"] is None
    assert "walk the dog" in rows["OWN-002"]["reason"]
    assert {entry["name"] for entry in document["by_source"]} == {"JIA", "AMP", "OWN"}
    assert (document["all"]["rows"], document["all"]["modelled"], document["all"]["scored"]) == (4, 3, 2)


def test_json_on_standard_output_is_all_there_is(figures, capsys):
    assert main(["validate", "--figures", str(figures), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["modelled"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--figures", "missing.csv"], "figures missing.csv cannot be read"),
        (["--figures", "FILE", "--only", "nothing like it"], "no id and no workload"),
        (["--figures", "FILE", "--json", "FILE/place.json"], "Cannot write"),
    ],
)
def test_wrong_use_is_one_message_and_exit_code_2(figures, capsys, words, message):
    assert main(["validate", *(word.replace("FILE", str(figures)) for word in words)]) == 2
    assert message in capsys.readouterr().err
