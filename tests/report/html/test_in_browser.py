"""The report in a real browser: what is on it, that it filters, that it fits a phone and a sheet of paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.clock import ManualClock
from autotune.records import StageName
from autotune.report.html.page import report_html
from autotune.report.report_data import ReportData, read_report
from autotune.store.store import Store
from tests.browser import CHROMIUM, Page, browser
from tests.report.loads import made_loads
from tests.report.study import StudyBuilder, fill_study, finish_verdict, study_job

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here"),
]
LARGEST_MB = 7.0
"""Of a report of 1,000 trials; plotly's own code is 4.8 of them."""
SHOWN_ROWS = "[...document.querySelectorAll('#trial-table tbody tr')].filter(row => row.offsetParent).length"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def report(studied: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every section that there is, but not confirmed."""
    folder = tmp_path_factory.mktemp("report")
    data = replace(studied, loads=made_loads(folder), finish=finish_verdict({}))
    return written(data, folder / "report.html")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand trials."""
    folder = tmp_path_factory.mktemp("large")
    clock, job = ManualClock(), study_job(folder)
    with Store.open(f"sqlite:///{folder}/l.db", job_name=job.name, job_hash="0" * 16, version="t") as store:
        fill_study(store, clock, job, sampled=0, steps=4)
        more, missing = StudyBuilder(store, clock), 1000 - len(store.trials())
        for number in range(3, 3 + missing):
            more.complete(StageName.QUALITY, number, {"a.lr": number}, "sampler", steps=3)
        assert len(store.trials()) == 1000
        return written(read_report(store, job, clock.utc_now()), folder / "report.html")


def written(data: ReportData, path: Path) -> Path:
    path.write_text(report_html(data), encoding="utf-8")
    return path


def opened(page: Page, path: Path, width: int = 1280, *, phone: bool = False) -> None:
    page.requests.clear()
    page.complaints.clear()
    page.media()
    page.size(width, 844 if phone else 900, phone=phone)
    page.open(path)


@pytest.mark.parametrize(("width", "phone"), [(1280, False), (390, True)])
def test_all_of_it_is_there_without_a_request_or_a_complaint(
    page: Page, report: Path, width: int, phone: bool
) -> None:
    opened(page, report, width, phone=phone)
    assert page.value("document.querySelectorAll('.plot .main-svg').length") >= 2 * 15
    text = page.value("document.body.innerText")
    for words in (
        "not confirmed",
        "acceptance not met",
        "oom_gpu_actor_update",
        "What it cost",
        "What each rank had to do",
        "pays for itself after",
        "torch.OutOfMemoryError",
        "3a274601a2aa61358db8a6f008fe42a72cb8a060",
    ):
        assert words in text
    assert page.value(TOO_WIDE) == 0
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_figures_stay_inside_a_phone(page: Page, report: Path) -> None:
    opened(page, report, 390, phone=True)
    widest = (
        "Math.max(...[...document.querySelectorAll('.plot svg')].map(s => s.getBoundingClientRect().right))"
    )
    assert page.value(widest) <= 390


def test_the_table_filters(page: Page, report: Path, studied: ReportData) -> None:
    opened(page, report)
    assert page.value(SHOWN_ROWS) == len(studied.trials)
    page.value(chosen("filter-stage", "speed"))
    speed = [trial for trial in studied.trials if trial.stage.value == "speed"]
    assert page.value(SHOWN_ROWS) == len(speed)
    page.value(chosen("filter-outcome", "failed"))
    failed = [trial for trial in speed if trial.verdict is not None and trial.verdict.failure is not None]
    assert page.value(SHOWN_ROWS) == len(failed)
    count = page.value("document.getElementById('trial-count').textContent")
    assert count == f"{len(failed)} matching of {len(studied.trials)} trials"
    page.value(chosen("filter-stage", "") + ";" + chosen("filter-outcome", ""))
    page.value(chosen("filter-text", "KL_drift"))
    assert page.value(SHOWN_ROWS) == 1


def test_a_failure_leads_to_its_trials(page: Page, report: Path, studied: ReportData) -> None:
    opened(page, report)
    page.value("document.querySelector('[data-filter=oom_gpu_actor_update]').click()")
    assert page.value(SHOWN_ROWS) == len(studied.failures[0].trials)


def test_a_column_sorts_both_ways_and_keeps_what_is_missing_last(page: Page, report: Path) -> None:
    opened(page, report)
    column = "[...document.querySelectorAll('#trial-table tbody tr')].map(row => row.cells[4].textContent)"
    button = "document.querySelector('#trial-table [data-column=\"4\"]')"
    for descending in (False, True):
        page.value(f"{button}.click()")
        shown = [text for text in page.value(column) if text != "-"]
        values = [float(text.replace(",", "")) for text in shown]
        assert values == sorted(values, reverse=descending)
        assert page.value(column)[-1] == "-"
    assert page.value(f"{button}.closest('th').getAttribute('aria-sort')") == "descending"


def test_dark_and_light_differ_in_the_figures_too(page: Page, report: Path) -> None:
    opened(page, report)
    ink = "document.querySelector('[data-figure=ledger] .xtitle').style.fill"
    light = page.value(ink)
    page.media(dark=True)
    dark = page.value(f"new Promise(done => setTimeout(() => done({ink}), 200))")
    assert light != dark
    assert page.complaints == []


def test_text_stands_out_from_its_ground(page: Page, report: Path) -> None:
    for dark in (False, True):
        opened(page, report)
        page.media(dark=dark)
        colours = page.value(
            "Object.fromEntries(['paper','ink','soft','accent','good','bad','limit'].map(name => "
            "[name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()]))"
        )
        paper = luminance(colours.pop("paper"))
        for name, colour in colours.items():
            light, deep = sorted((paper, luminance(colour)), reverse=True)
            assert (light + 0.05) / (deep + 0.05) >= 4.5, (name, dark)


def test_it_prints_on_light_paper_with_the_tables_open(page: Page, report: Path) -> None:
    opened(page, report)
    page.media(dark=True)
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 4 <= pages <= 14
    page.media("print")
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(253, 252, 250)"
    assert page.complaints == []


def test_a_thousand_trials(page: Page, large: Path) -> None:
    assert large.stat().st_size < LARGEST_MB * 1e6
    opened(page, large)
    assert page.value("document.getElementById('trial-table').tBodies[0].rows.length") == 1000
    assert page.value(SHOWN_ROWS) == 50
    page.value("document.getElementById('show-all').click()")
    assert page.value(SHOWN_ROWS) == 1000
    assert "40 of" in page.value("document.getElementById('curves').innerText")
    assert page.complaints == []


def chosen(control: str, value: str) -> str:
    """Sets a control as a person does."""
    return (
        f"(() => {{ const control = document.getElementById('{control}'); control.value = '{value}';"
        " control.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def luminance(colour: str) -> float:
    """WCAG 2's relative luminance of `#rrggbb`."""
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
