"""The judge's last word on one attempt: outcome, figures, failure, and what to know besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from autotune.job.model import GuardSection
from autotune.judge import early_end
from autotune.judge.classify import as_sentence, classify
from autotune.judge.evidence import Evidence
from autotune.judge.figures import column, figures
from autotune.judge.guards import figure_stop, is_figure_kind
from autotune.judge.input_pipeline import input_advice
from autotune.judge.run_facts import UNKNOWN, RunFacts
from autotune.judge.signs import Sign, signs
from autotune.judge.statistics import last_quarter, mean
from autotune.records import Failure, FailureGroup, Figures, GuardStop, Outcome, Verdict

_OUTCOMES: Mapping[FailureGroup, Outcome] = {
    FailureGroup.CANDIDATE: Outcome.FAILED,
    FailureGroup.INFRASTRUCTURE: Outcome.INFRASTRUCTURE,
    FailureGroup.USER: Outcome.USER_FAULT,
}
_CLIPPED_FRAC = 0.5
_NOISE_FRAC = 0.1


def judge_attempt(
    evidence: Evidence,
    *,
    steps_asked: int,
    warmup_steps: int | None,
    guards: GuardSection,
    facts: RunFacts = UNKNOWN,
) -> Verdict:
    """The verdict on an attempt that has ended.

    Success is the asked number of finite steps, never the exit code: verl may exit 0 without
    them, and may fail while it shuts down after them.
    """
    measured = figures(
        evidence, steps_asked=steps_asked, warmup_steps=warmup_steps, kl_metric=guards.kl_metric, facts=facts
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
        if evidence.stop is not None and evidence.stop.kind in early_end.KINDS:
            return _ended_early(evidence.stop, evidence, measured, guards, facts)
        failure = classify(evidence)
    found = signs(evidence.rows)
    clean = complete and failure is None
    verdict = Verdict(
        outcome=Outcome.COMPLETED if complete else Outcome.STOPPED,
        figures=measured,
        warnings=tuple(_warnings(evidence, measured, guards, facts, found, complete=clean)),
        signs=tuple(sign.name.value for sign in found),
    )
    if failure is None:
        return verdict
    return replace(verdict, outcome=_OUTCOMES[failure.group], failure=failure)


def _ended_early(
    stop: GuardStop, evidence: Evidence, measured: Figures, guards: GuardSection, facts: RunFacts
) -> Verdict:
    found = signs(evidence.rows)
    return Verdict(
        outcome=Outcome.ENDED_EARLY,
        figures=measured,
        warnings=tuple(_warnings(evidence, measured, guards, facts, found, complete=False)),
        signs=tuple(sign.name.value for sign in found),
        reason=as_sentence(stop.reason),
    )


def _figure_failure(evidence: Evidence, guards: GuardSection) -> Failure | None:
    """Figures over a limit count even where the attempt ended before anybody looked."""
    if evidence.stop is not None and is_figure_kind(evidence.stop.kind):
        return classify(evidence)
    stop = figure_stop(evidence, guards)
    return classify(replace(evidence, stop=stop)) if stop is not None else None


def _warnings(
    evidence: Evidence,
    measured: Figures,
    guards: GuardSection,
    facts: RunFacts,
    found: Sequence[Sign],
    *,
    complete: bool,
) -> Iterator[str]:
    if evidence.end is not None and evidence.end.left_behind:
        pids = ", ".join(map(str, evidence.end.left_behind))
        yield f"processes could not be ended and may hold memory: {pids}"
    if guards.kl_limit is not None and evidence.rows and measured.kl is None:
        yield f"{guards.kl_metric} was never reported, so the KL limit {guards.kl_limit:g} was not watched"
    if complete:
        yield from _end_warnings(evidence)
    yield from _curve_warnings(evidence, measured, facts)
    yield from (sign.text for sign in found)


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


def _curve_warnings(evidence: Evidence, measured: Figures, facts: RunFacts) -> Iterator[str]:
    last = last_quarter(evidence.rows)
    clipped, limit = measured.truncated_frac, facts.response_limit_tokens
    if clipped is not None and clipped > _CLIPPED_FRAC:
        if limit is not None:
            yield f"{clipped:.0%} of the last responses were cut off at {limit} tokens"
        else:
            yield (
                f"{clipped:.0%} of the last responses are as long as the longest of their batch:"
                " likely cut off"
            )
    aborted = mean(column(last, "response/aborted_ratio"))
    if aborted:
        yield f"{aborted:.1%} of the last responses were aborted"
    advice = input_advice(evidence.rows, facts.loader_workers) if facts.watch_input else None
    if advice is not None:
        yield advice
    yield from _token_faults(evidence)
    noise = measured.tokens_per_s_noise_frac
    if noise is not None and noise > _NOISE_FRAC:
        yield f"step throughput varies by {noise:.0%}; small gains cannot be told from noise"


def _token_faults(evidence: Evidence) -> Iterator[str]:
    """What the plugin's token check found in the first step, where the job switches it on."""
    found = column(evidence.rows, "autotune/token_faults"), column(evidence.rows, "autotune/tokens_checked")
    for faults, checked in zip(*found, strict=False):
        if faults:
            yield (
                f"{faults:.0f} of {checked:.0f} samples do not agree with the chat template:"
                " see `autotune token check` in console.log"
            )
