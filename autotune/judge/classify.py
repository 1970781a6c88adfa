"""Why an attempt did not complete: one failure from guard, console lines and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.judge import phases
from autotune.judge.evidence import Evidence
from autotune.judge.guards import is_figure_kind
from autotune.judge.kinds import FailureKind, facts, oom_kind
from autotune.judge.patterns import COLLECTIVE, free_memory_gb
from autotune.records import Failure, GuardStop, LogEvidence

_FOREIGN_FRAC = 0.05
# Console and metrics are read in turns, so a row may be seen a little after a later line.
_OUTLIVED_AFTER_S = 5.0


def classify(evidence: Evidence) -> Failure | None:
    """The failure that the evidence shows, or None where nothing failed or it still runs.

    A guard over figures stands by itself. A silence or time limit is explained by an earlier
    decisive line where there is one. Without a guard the best line decides, then the end.
    Whether the asked steps were made is not judged here.
    """
    if evidence.stop is not None:
        return _stopped(evidence.stop, evidence)
    lines = _lines(evidence)
    if lines and lines[0].kind != FailureKind.UNKNOWN:
        return _from_line(lines[0], evidence)
    if evidence.end is None or (evidence.end.asked and not evidence.end.lost):
        return None
    if evidence.end.lost:
        return _failure(FailureKind.LOST.value, evidence.phase)
    return _unknown(lines, evidence)


def _stopped(stop: GuardStop, evidence: Evidence) -> Failure:
    # What the console says after the decision only tells of the ending.
    before = [line for line in _lines(evidence) if line.at_s <= stop.at_s]
    line = None if is_figure_kind(stop.kind) else _line_for_stop(before, stop.kind)
    if line is not None:
        return _from_line(line, evidence, reason=stop.reason)
    cause = f"{_sentence(stop.kind, stop.phase)} {as_sentence(stop.reason)}"
    return _failure(stop.kind, stop.phase, cause=cause)


def _lines(evidence: Evidence) -> list[LogEvidence]:
    """The lines, best first; one that a further step outlived comes after all that ended the run."""
    last_row_s = evidence.rows[-1].at_s if evidence.rows else 0.0
    located_lines = [located(line, evidence) for line in evidence.log]
    return sorted(located_lines, key=lambda line: last_row_s > line.at_s + _OUTLIVED_AFTER_S)


def _line_for_stop(lines: Sequence[LogEvidence], kind: str) -> LogEvidence | None:
    """The line that explains a silence: a decisive one, or the one that the guard itself named."""
    for line in lines:
        if line.level <= COLLECTIVE or line.kind == kind:
            return line
    return None


def located(line: LogEvidence, evidence: Evidence) -> LogEvidence:
    """Fills in the phase where the lines themselves did not name one inside the steps."""
    if line.kind not in (FailureKind.OOM_UNATTRIBUTED, FailureKind.UNKNOWN, FailureKind.RAY_ACTOR_DEATH):
        return line
    phase = evidence.phase_at(line.at_s)
    if phases.is_start(phase) and line.phase != "launch":
        phase = line.phase
    kind = oom_kind(phase) if line.kind == FailureKind.OOM_UNATTRIBUTED else line.kind
    return replace(line, phase=phase, kind=kind)


def _from_line(line: LogEvidence, evidence: Evidence, reason: str = "") -> Failure:
    kind = FailureKind.SHARED_GPU.value if _is_held_by_others(line, evidence) else line.kind
    cause = _sentence(kind, line.phase) + (f" {as_sentence(reason)}" if reason else "")
    return _failure(kind, line.phase, cause=cause, line=line)


def _is_held_by_others(line: LogEvidence, evidence: Evidence) -> bool:
    """Whether the memory missing at engine start belongs to neither this trial nor the free part.

    vLLM prints free and total in GiB without naming the device in NVML's way, so the trial's
    fullest device is compared.
    """
    printed = free_memory_gb(line.text)
    if printed is None or not evidence.last_used_gb:
        return False
    free_gb, total_gb = printed
    own_gb = max(evidence.last_used_gb.values())
    return total_gb - free_gb - own_gb > max(1.0, _FOREIGN_FRAC * total_gb)


def _unknown(lines: Sequence[LogEvidence], evidence: Evidence) -> Failure:
    end = evidence.end
    code = "killed" if end is None or end.exit_code is None else f"exit code {end.exit_code}"
    cause = f"{_sentence(FailureKind.UNKNOWN.value, evidence.phase)} {code}, {evidence.steps} steps done."
    return _failure(FailureKind.UNKNOWN.value, evidence.phase, cause=cause, line=lines[0] if lines else None)


def _failure(kind: str, phase: str, *, cause: str = "", line: LogEvidence | None = None) -> Failure:
    return Failure(
        kind=kind,
        group=facts(kind).group,
        phase=phase,
        cause=cause or _sentence(kind, phase),
        line_number=line.line_number if line else None,
        line=line.text if line else "",
    )


def _sentence(kind: str, phase: str) -> str:
    return facts(kind).sentence.format(phase=phase)


def as_sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    # A text that begins with a key or metric keeps it verbatim.
    first = text.split(" ", 1)[0]
    head = text[:1] if "/" in first or "." in first else text[:1].upper()
    return head + text[1:].rstrip(".") + "."
