"""`autotune report`: one file, or its data as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.builders import answered, printed, refused


def test_the_report_of_a_climbed_job(climbed: Path, capsys: Any) -> None:
    text = printed(capsys, "report", "--job", "played", "-o", "tuned.html")
    assert text.startswith("wrote tuned.html: not confirmed; ")
    page = (climbed / "tuned.html").read_text(encoding="utf-8")
    assert "<h1>played</h1>" in page
    assert "one change from #" in page


def test_its_data_as_json_writes_no_file(climbed: Path, capsys: Any) -> None:
    answer = answered(capsys, "report", "--job", "played.yaml")
    assert answer["file"] is None
    assert not (climbed / "report.html").exists()
    assert [rung["state"] for rung in answer["rungs"]] == ["ended"] * 3
    # The ladder's own words for a single change are understood.
    assert answer["effects"]["effects"][0]["key"].startswith("actor_rollout_ref.")
    assert len(answer["trials"]) == sum(entry["trials"] for entry in answer["ledger"]["entries"])


def test_both_at_once(climbed: Path, capsys: Any) -> None:
    assert answered(capsys, "report", "--job", "played", "-o", "both.html")["file"] == "both.html"
    assert (climbed / "both.html").stat().st_size > 1_000_000


def test_a_job_without_a_database(climbed: Path, capsys: Any) -> None:
    refused(capsys, "report", "--job", "nothing")
