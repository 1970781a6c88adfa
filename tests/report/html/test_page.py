"""The page: complete without a network, safe against what logs and names contain, short at 1,000 trials."""

import json
import re
from dataclasses import replace

import pytest

from autotune.report.html.page import figures_json, report_figures, report_html
from tests.report.study import LINE, finish_verdict


@pytest.fixture(scope="module")
def page(studied):
    return report_html(studied)


def without_plotly(page):
    """The page's own text; plotly's code holds addresses that it never asks for."""
    return re.sub(r"<script>/\*\*.*?</script>", "", page, flags=re.DOTALL)


def test_it_names_no_address_and_forbids_every_request(page):
    own = without_plotly(page)
    assert len(own) < 200_000
    assert re.findall(r"""(?:src|href)=["'](?!#)""", own) == []
    assert "://" not in own
    assert "default-src 'none'" in own


def test_the_verdict_comes_first(page):
    own = without_plotly(page)
    places = [own.index(f'id="{name}"') for name in ("verdict", "ladder", "memory", "trials", "provenance")]
    assert places == sorted(places)
    assert "not confirmed" in own


def test_what_a_log_says_stays_text(page):
    assert "<b>Tried</b>" not in page
    assert "&lt;b&gt;Tried&lt;/b&gt;" in page


def test_a_name_cannot_end_the_script(studied):
    hostile = replace(studied.curves.named[1], name="</script><script>alert(1)</script>")
    data = replace(studied, curves=replace(studied.curves, named=(hostile,)))
    text = figures_json(report_figures(data))
    assert "<" not in text
    assert "</script><script>" in json.loads(text)["reward"]["data"][1]["name"]


def test_every_figure_has_its_place(studied, page):
    for name in report_figures(studied):
        assert f'data-figure="{name}"' in page


def test_every_table_has_a_caption_and_every_section_a_heading(page):
    own = without_plotly(page)
    assert own.count("<caption>") == len(re.findall(r"<table", own))
    assert own.count("<section") == own.count("aria-labelledby=")


def test_a_finish_is_shown_with_its_intervals(studied):
    finished = replace(studied, finish=finish_verdict({}), confirmed=True)
    own = without_plotly(report_html(finished))
    assert "+25.0\u00a0% to +39.0\u00a0%" in own
    assert "<td>inconclusive</td>" in own
    assert "-1.200\u00a0GB" in own
    assert "if the gain is confirmed" not in own


def test_the_line_that_decided_is_whole(page):
    assert LINE.split("<b>")[0] in page
