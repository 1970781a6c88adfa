"""The judge's last word on one attempt: outcome, figures, failure, and what to know besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.job.model import GuardSection
from autotune.judge.classify import classify
from autotune.judge.evidence import Evidence
from autotune.judge.figures import column, figures, last_rows
from autotune.judge.guards import figure_stop, is_figure_kind
from autotune.judge.statistics import mean
from autotune.records import Failure, FailureGroup, Figures, Outcome, Verdict

_OUTCOMES: Mapping[FailureGroup, Outcome] = {
    FailureGroup.CANDIDATE: Outcome.FAILED,
    FailureGroup.INFRASTRUCTURE: Outcome.INFRASTRUCTURE,
    FailureGroup.USER: Outcome.USER_FAULT,
}
_CLIPPED_FRAC = 0.5
_NOISE_FRAC = 0.1
_PROBABILITY_DIFFERENCE = 0.01


def judge_attempt(
    evidence: Evidence, *, steps_asked: int, warmup_steps: int, guards: GuardSection
) -> Verdict:
    """The verdict on an attempt that has ended.

    Success is the asked number of finite steps, never the exit code: verl may exit 0 without
    them, and may fail while it shuts down after them.
    """
    measured = figures(
        evidence, steps_asked=steps_asked, warmup_steps=warmup_steps, kl_metric=guards.kl_metric
    )
    failure = _figure_failure(evidence, guards)
    complete = evidence.steps >= steps_asked
    if failure is None and not complete:
        if (
            evidence.stop is None
            and evidence.end is not None
            and evidence.end.asked
            and not evidence.end.lost
        ):
            return Verdict(outcome=Outcome.STOPPED, figures=measured)
        failure = classify(evidence)
    warnings = tuple(_warnings(evidence, measured, guards, complete=complete and failure is None))
    if failure is not None:
        return Verdict(outcome=_OUTCOMES[failure.group], figures=measured, failure=failure, warnings=warnings)
    outcome = Outcome.COMPLETED if complete else Outcome.STOPPED
    return Verdict(outcome=outcome, figures=measured, warnings=warnings)


def _figure_failure(evidence: Evidence, guards: GuardSection) -> Failure | None:
    """Figures over a limit count even where the attempt ended before anybody looked."""
    if evidence.stop is not None and is_figure_kind(evidence.stop.kind):
        return classify(evidence)
    stop = figure_stop(evidence, guards)
    return classify(replace(evidence, stop=stop)) if stop is not None else None


def _warnings(
    evidence: Evidence, measured: Figures, guards: GuardSection, *, complete: bool
) -> Iterator[str]:
    if evidence.end is not None and evidence.end.left_behind:
        pids = ", ".join(map(str, evidence.end.left_behind))
        yield f"processes could not be ended and may hold memory: {pids}"
    if guards.kl_limit is not None and evidence.rows and measured.kl is None:
        yield f"{guards.kl_metric} was never reported, so the KL limit {guards.kl_limit:g} was not watched"
    if complete:
        yield from _end_warnings(evidence)
    yield from _curve_warnings(evidence, measured)


def _end_warnings(evidence: Evidence) -> Iterator[str]:
    end = evidence.end
    if end is not None and not end.asked and end.exit_code != 0:
        code = "was killed" if end.exit_code is None else f"exited {end.exit_code}"
        yield f"all steps were made, but verl {code} while it shut down"
    if evidence.stop is not None:
        yield f"all steps were made, but verl had to be ended: {evidence.stop.reason}"
    if evidence.log:
        line = evidence.log[0]
        yield f"the run went on after line {line.line_number} ({line.kind}): {line.text[:160]}"


def _curve_warnings(evidence: Evidence, measured: Figures) -> Iterator[str]:
    last = last_rows(evidence.rows)
    clipped = mean(column(last, "response_length/clip_ratio"))
    if clipped is not None and clipped > _CLIPPED_FRAC:
        yield f"{clipped:.0%} of the last responses are as long as the longest of their batch: likely cut off"
    aborted = mean(column(last, "response/aborted_ratio"))
    if aborted:
        yield f"{aborted:.1%} of the last responses were aborted"
    difference = mean(column(last, "training/rollout_probs_diff_mean"))
    if difference is not None and difference > _PROBABILITY_DIFFERENCE:
        yield f"rollout and trainer probabilities differ by {difference:.3g} (normal below 0.005)"
    noise = measured.tokens_per_s_noise_frac
    if noise is not None and noise > _NOISE_FRAC:
        yield f"step throughput varies by {noise:.0%}; small gains cannot be told from noise"
