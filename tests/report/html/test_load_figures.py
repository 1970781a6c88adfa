"""The load in pictures: the numbers are those of the data, and nothing is drawn without a file."""

from dataclasses import replace

import pytest

from autotune.report.html.load_figures import load_figures
from autotune.report.html.page import report_html
from tests.report.loads import made_loads

NAMES = ("tokens", "samples", "micro-batches", "histogram", "balance", "lengths")


@pytest.fixture
def loaded(studied, tmp_path):
    def made(**options):
        return replace(studied, loads=made_loads(tmp_path, **options))

    return made


def test_without_a_load_there_is_no_section(studied):
    assert load_figures(studied) == {}
    assert 'id="load"' not in report_html(studied)


def test_each_figure_is_on_the_page_beside_its_numbers(loaded):
    data = loaded()
    page = report_html(data)
    assert sorted(load_figures(data)) == sorted(f"load-{name}" for name in NAMES)
    assert all(f'data-figure="load-{name}"' in page for name in NAMES)
    assert f"{data.loads[1].balance.mean_after:.3f}x" in page
    assert '<a href="#load">' in page


def test_tokens_are_a_line_in_a_band(loaded):
    data = loaded(steps=5)
    band, line, _, fastest = load_figures(data)["load-tokens"].data
    tokens = data.loads[0].tokens
    assert list(line.y) == pytest.approx(tokens.mean, abs=0.05)
    assert list(band.y) == [*tokens.largest, *reversed(tokens.smallest)]
    assert (line.name, fastest.name) == ("survivor, mean", "fastest, mean")
    assert line.line.dash != fastest.line.dash


def test_the_histogram_holds_everything_once(loaded):
    for trace in load_figures(loaded())["load-histogram"].data:
        assert sum(trace.y) == pytest.approx(1.0)
        assert len(trace.x) == len(trace.y)


def test_one_rank_has_nothing_to_balance(loaded):
    data = loaded(ranks=1)
    assert "load-balance" not in load_figures(data)
    assert "nothing to balance" in report_html(data)


def test_the_section_stays_small(studied, loaded):
    assert len(report_html(loaded(steps=1000))) - len(report_html(studied)) < 120_000
