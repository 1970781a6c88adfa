"""One trial in full: why it ended, the decisive line, its curves, its memory, its attempts and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autotune.errors import Fault, InputError
from autotune.forecast.rejection import Judgement
from autotune.job.paths import AttemptPaths
from autotune.records import AttemptRole, Figures, MetricRow, Verdict
from autotune.report.forecast_against_measured import against_measured, against_measured_json
from autotune.report.sparkline import sparkline
from autotune.report.tables import outcome_text, trial_json, trial_name, utc_text
from autotune.report.wording import ABSENT, gigabytes, number, percent, seconds, strict
from autotune.store.reader import StoreReader
from autotune.store.stored import StoredAttempt, StoredTrial

CURVES: tuple[tuple[str, str], ...] = (
    ("reward", "critic/rewards/mean"),
    ("KL", "actor/kl_loss"),
    ("tok/s/GPU", "perf/throughput"),
    ("response", "response_length/mean"),
    ("grad norm", "actor/grad_norm"),
    ("entropy", "actor/entropy"),
    ("cut off", "response_length/clip_ratio"),
    ("no variance", "autotune/groups_without_variance_frac"),
    ("mismatch", "training/rollout_probs_diff_mean"),
)
"""(name for people, verl's metric); a metric that verl did not log is left out."""


@dataclass(frozen=True, kw_only=True)
class TrialPage:
    """All that is known of a trial."""

    trial: StoredTrial
    device_s: float
    attempts: tuple[StoredAttempt, ...]
    rows: tuple[MetricRow, ...]
    """Metric rows of the last measuring attempt that has any."""
    forecast: Judgement | None
    """What was expected of its memory before the launch."""
    files: tuple[Path, ...]
    """The last attempt's files, those that exist."""


def find_trial(trials: Sequence[StoredTrial], reference: str) -> StoredTrial:
    """The trial that `speed/3`, `speed-3` or a number that one stage alone has stands for.

    Raises:
        InputError: no such trial, or several stages have this number.
    """
    wanted = reference.strip().lower().replace("-", "/").replace(" ", "/")
    matches = [trial for trial in trials if wanted in (trial_name(trial), str(trial.number))]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(trial_name(trial) for trial in matches)
    raise InputError(
        Fault(
            where="TRIAL",
            found=f"{reference}, which is {names}" if matches else f"{reference}, which no stage has",
            allowed=f"one of {names}" if matches else "STAGE/NUMBER, e.g. survive/0",
            next_step="name the stage as well" if matches else "list them with `autotune trials`",
        )
    )


def read_trial_page(store: StoreReader, trial: StoredTrial) -> TrialPage:
    """Reads what belongs to the trial from the database and its last attempt's folder."""
    attempts = store.attempts(trial.id)
    # A certificate's two extreme steps are no curve, so it is asked last.
    by_worth = sorted(attempts, key=lambda attempt: (attempt.role is AttemptRole.MEASURE, attempt.index))
    curves = (store.metric_rows(attempt.attempt_id) for attempt in reversed(by_worth))
    rows = next((rows for rows in curves if rows), [])
    return TrialPage(
        trial=trial,
        device_s=store.device_s_by_trial().get(trial.id, 0.0),
        attempts=tuple(attempts),
        rows=tuple(rows),
        forecast=store.forecast(trial.id),
        files=_files(attempts[-1]) if attempts else (),
    )


def trial_page_json(page: TrialPage) -> dict[str, Any]:
    """The trial's stable fields and, beside them, everything else on the page."""
    verdict = page.trial.verdict
    failure = verdict.failure if verdict else None
    figures = verdict.figures if verdict else Figures()
    more = {
        "phase": failure.phase if failure else None,
        "line": {"number": failure.line_number, "text": failure.line} if failure and failure.line else None,
        "warnings": verdict.warnings if verdict else (),
        "steps": figures.steps,
        "steps_asked": figures.steps_asked,
        "peak_by_phase_frac": figures.peak_by_phase_frac,
        "forecast": against_measured_json(page.forecast, page.trial.verdict),
        "overrides": page.trial.overrides,
        "curves": {key: _curve(page.rows, key) for _, key in CURVES if _curve(page.rows, key)},
        "attempts": [_attempt_json(attempt) for attempt in page.attempts],
        "files": [str(path) for path in page.files],
    }
    ended = [attempt.end.session for attempt in page.attempts if attempt.end is not None]
    session = ended[-1] or None if ended else None
    plain: dict[str, Any] = strict({**trial_json(page.trial, page.device_s, session=session), **more})
    return plain


def trial_page(page: TrialPage) -> RenderableType:
    """The page for people, as `show` prints it."""
    parts: list[RenderableType] = [_heading(page), *_ending(page.trial.verdict)]
    parts += _section("parameters", _values(page.trial.candidate.params))
    parts += _section("figures", _figures(page.trial.verdict))
    parts += _section("curves", _curves(page.rows))
    parts += _section("peak memory by phase", _peaks(page.trial.verdict))
    parts += _section(
        "memory, forecast against measured", against_measured(page.forecast, page.trial.verdict)
    )
    parts += _section("attempts", _attempts(page.attempts))
    parts += _section("files", [Text(f"  {path}") for path in page.files])
    return Group(*parts)


def _heading(page: TrialPage) -> Text:
    trial = page.trial
    text = Text(trial_name(trial), style="bold").append("  ").append_text(outcome_text(trial))
    text.append(f"\nproposed by {trial.candidate.origin}; started {utc_text(trial.started_utc)}", "not bold")
    text.append(f", cost {seconds(page.device_s)} of devices", "not bold")
    because = f"\nbecause {trial.candidate.reason}" if trial.candidate.reason else ""
    return text.append(because, "not bold")


def _ending(verdict: Verdict | None) -> list[RenderableType]:
    if verdict is None:
        return [Text("still running")]
    lines: list[RenderableType] = []
    failure = verdict.failure
    if verdict.reason:
        lines.append(Text(f"ended early: {verdict.reason}"))
    if failure:
        phase = f" during {failure.phase}" if failure.phase else ""
        lines.append(Text(f"ended by {failure.kind}{phase}: {failure.cause}"))
    if failure and failure.line:
        place = "" if failure.line_number is None else f"line {failure.line_number}: "
        lines.append(Text(f"  {place}{failure.line}", style="red"))
    return lines + [Text(f"note: {warning}", style="yellow") for warning in verdict.warnings]


def _section(title: str, content: Sequence[RenderableType]) -> list[RenderableType]:
    return [Text(""), Text(title, style="bold"), *content] if content else []


def _rows(rows: Sequence[tuple[str, str]]) -> list[RenderableType]:
    table = Table.grid(padding=(0, 2))
    for cells in rows:
        table.add_row(Text(""), *map(Text, cells))
    return [table] if rows else []


def _values(values: Any) -> list[RenderableType]:
    return _rows([(key, str(value)) for key, value in values.items()])


def _figures(verdict: Verdict | None) -> list[RenderableType]:
    if verdict is None or not verdict.figures.steps_asked:
        return []
    figures = verdict.figures
    rows = [
        ("steps", f"{figures.steps} of {figures.steps_asked}"),
        ("peak memory", f"{percent(figures.peak_memory_frac)} ({gigabytes(figures.peak_memory_gb)})"),
        ("tokens/s/GPU", number(figures.tokens_per_s_per_gpu)),
        ("step", seconds(figures.step_s)),
        ("start", seconds(figures.start_s)),
        ("reward", number(figures.reward)),
        ("validation reward", number(figures.validation_reward)),
        (f"KL {figures.kl_estimator}".rstrip(), number(figures.kl)),
        ("entropy", number(figures.entropy)),
        ("cut-off responses", percent(figures.truncated_frac)),
        ("groups without variance", percent(figures.no_variance_frac)),
        ("rollout/trainer mismatch", number(figures.probability_gap)),
    ]
    return _rows([row for row in rows if not row[1].startswith(ABSENT)])


def _curve(rows: Sequence[MetricRow], key: str) -> list[float | None]:
    return [row.values[key] for row in rows if key in row.values]


def _curves(rows: Sequence[MetricRow]) -> list[RenderableType]:
    lines = []
    for name, key in CURVES:
        values = _curve(rows, key)
        if values:
            ends = f"{number(values[0])} .. {number(values[-1])} in {len(values)} steps"
            lines.append((f"{name} ({key})", f"{sparkline(values)}  {ends}"))
    return _rows(lines)


def _peaks(verdict: Verdict | None) -> list[RenderableType]:
    peaks = verdict.figures.peak_by_phase_frac if verdict else {}
    width = 30
    return _rows(
        [
            (phase, f"{'#' * round(width * min(1.0, frac)):<{width}} {percent(frac)}")
            for phase, frac in sorted(peaks.items(), key=lambda peak: -peak[1])
        ]
    )


def _attempts(attempts: Sequence[StoredAttempt]) -> list[RenderableType]:
    rows = []
    for attempt in attempts:
        end = attempt.end
        exit_text = (
            "" if end is None else f", exit code {end.exit_code}, cleaned up in {seconds(end.clean_up_s)}"
        )
        left = f", LEFT BEHIND: {list(end.left_behind)}" if end and end.left_behind else ""
        about = f"{attempt.state.value}, {seconds(attempt.device_s)}{exit_text}{left}"
        rows.append((f"{attempt.index} {attempt.role.value}", f"{about}\n{attempt.folder}"))
    return _rows(rows)


def _attempt_json(attempt: StoredAttempt) -> dict[str, Any]:
    end = attempt.end
    return {
        "attempt_id": attempt.attempt_id,
        "index": attempt.index,
        "role": attempt.role.value,
        "state": attempt.state.value,
        "folder": attempt.folder,
        "started_utc": utc_text(attempt.started_utc),
        "last_seen_utc": utc_text(attempt.last_seen_utc),
        "ended_utc": utc_text(attempt.ended_utc),
        "gpu_s": attempt.device_s,
        "outcome": attempt.verdict.outcome.value if attempt.verdict else None,
        "exit_code": end.exit_code if end else None,
        "clean_up_s": end.clean_up_s if end else None,
        "left_behind": end.left_behind if end else (),
    }


def _files(attempt: StoredAttempt) -> tuple[Path, ...]:
    paths = AttemptPaths(Path(attempt.folder))
    known = (paths.config, paths.console, paths.metrics, paths.phases, paths.end)
    return tuple(path for path in known if path.exists())
