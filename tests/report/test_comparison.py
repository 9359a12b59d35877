"""Two profiles compared: the figures, their text, and the page that holds both."""

from __future__ import annotations

import re

from plan_factory import make_bert_plan, make_cnn_plan

from openipu.report import build_profile, summarise
from openipu.report.comparison import compare_summaries, render_comparison
from openipu.report.html import render_html


def test_figures_of_both_stand_side_by_side_with_their_ratio() -> None:
    first, second = make_bert_plan(), make_bert_plan(micro_batch=4)
    found = {entry.name: entry for entry in compare_summaries(summarise(first), summarise(second))}
    assert (found["fullest tile"].first, found["fullest tile"].second) == (first.fit.peak_bytes, second.fit.peak_bytes)
    call = found["call"]
    assert call.ratio == second.timing.call_cycles / first.timing.call_cycles
    assert found["steps"].ratio == 1.0
    assert found["tiles over the limit"].ratio is None  # the first has none
    same = compare_summaries(summarise(make_cnn_plan()), summarise(make_cnn_plan()))
    assert "tiles over the limit" not in {entry.name for entry in same}  # neither has any


def test_what_only_one_program_has_is_new() -> None:
    inference, training = summarise(make_cnn_plan()), summarise(make_bert_plan())
    update = next(entry for entry in compare_summaries(inference, training) if entry.name == "weight update")
    assert update.ratio is None
    text = render_comparison(inference, training)
    assert text.startswith("A: resnet\nB: bert-base\n")
    assert re.search(r"^weight update +0\S* ?\S* .* new$", text, re.MULTILINE)


def test_a_page_of_two_reports_holds_both_and_one_page_holds_one() -> None:
    profile = build_profile(make_cnn_plan())
    alone = render_html(profile)
    both = render_html(profile, build_profile(make_cnn_plan("second <net>")))
    assert re.search(r'id="other"></script>', alone)
    assert re.search(r'id="other">[A-Za-z0-9+/=]{1000,}</script>', both)
    assert "<title>resnet and second &lt;net&gt; · openipu (unofficial)</title>" in both
