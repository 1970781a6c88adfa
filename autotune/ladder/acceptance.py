"""Whether a trial meets its stage's acceptance, in words and figures. Reported, never assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.job.model import QualityStage, SpeedStage, StageSection, SurviveStage
from autotune.judge.statistics import scatter_ratio
from autotune.ladder.view import Baseline, StageView, TrialView
from autotune.records import Figures, Outcome, Overrides, StageResult, Verdict


@dataclass(frozen=True)
class Check:
    """One condition of an acceptance."""

    met: bool
    text: str
    """With the figure and the limit: `peak memory 71% of the device in rollout (limit 80%)`."""
    is_goal: bool = False
    """A gain that is wanted, as against a limit that has to be kept."""


def checks(section: StageSection, verdict: Verdict, baseline: Baseline | None) -> list[Check]:
    """Every condition of the stage's acceptance, met or not.

    Args:
        section: The stage with its limits.
        verdict: The whole trial's verdict, survive's certificate included.
        baseline: What gains are measured against; None before there is one.
    """
    figures = verdict.figures
    found = [_ran(verdict), _memory(figures, section.peak_memory_frac)]
    if isinstance(section, SpeedStage):
        found += _speed(section, figures, baseline)
    if isinstance(section, QualityStage):
        found += _quality(section, figures, baseline)
    return found


def is_accepted(section: StageSection, verdict: Verdict, baseline: Baseline | None) -> bool:
    """Whether all conditions hold."""
    return verdict.outcome is Outcome.COMPLETED and all(c.met for c in checks(section, verdict, baseline))


def _ran(verdict: Verdict) -> Check:
    figures = verdict.figures
    done = verdict.outcome is Outcome.COMPLETED and figures.steps >= figures.steps_asked
    return Check(done, f"{figures.steps} of {figures.steps_asked} steps with finite reward")


def _memory(figures: Figures, limit: float) -> Check:
    if figures.peak_memory_frac is None:
        # Without a reading nothing is over the limit, but nobody shall believe that it was checked.
        return Check(True, "peak memory not measured")
    peak, phase = figures.peak_memory_frac, figures.peak_memory_phase
    return Check(peak <= limit, f"peak memory {peak:.0%} of the device in {phase} (limit {limit:.0%})")


def _speed(section: SpeedStage, figures: Figures, baseline: Baseline | None) -> list[Check]:
    if baseline is None or not baseline.figures.tokens_per_s_per_gpu or figures.tokens_per_s_per_gpu is None:
        return [Check(False, "no survivor to compare the speed with", is_goal=True)]
    gain = figures.tokens_per_s_per_gpu / baseline.figures.tokens_per_s_per_gpu
    # Cut off, not rounded: 1.299x shall not read as the 1.30x that it misses.
    shown = math.floor(gain * 100 + 1e-9) / 100
    found = [
        Check(
            gain >= section.wanted_gain,
            f"{shown:.2f}x the survivor's tokens/s/GPU (wanted {section.wanted_gain:g}x)",
            is_goal=True,
        )
    ]
    if baseline.drift is not None:
        found.append(Check(True, str(baseline.drift)))
    rough, own = figures.reward_std, baseline.figures.reward_std
    if rough is not None and own is not None:
        # A baseline that is smooth by chance must not forbid what every curve of this job shows, and the
        # scatter of a few steps is itself uncertain.
        by_chance = scatter_ratio(figures.reward_std_degrees, baseline.reward_std_degrees)
        limit = max(section.reward_noise_factor, by_chance) * max(own, 0.01)
        found.append(Check(rough <= limit, f"reward swings {rough:.3f} (limit {limit:.3f})"))
    return found


def _quality(section: QualityStage, figures: Figures, baseline: Baseline | None) -> list[Check]:
    low, high = section.kl_band
    kl = figures.kl
    estimator = f" by {figures.kl_estimator}" if figures.kl_estimator else ""
    band = f"KL {kl:.3f}{estimator} (band {low:g}..{high:g})" if kl is not None else "KL not logged"
    found = [Check(kl is not None and low <= kl <= high, band)]
    word, base, reached = _rewards(figures, baseline)
    if base is None or reached is None:
        return [*found, Check(False, "no baseline reward to compare with")]
    # A gain over a reward of zero or below has no ratio; the wanted share of its size is added instead.
    wanted = base + (section.wanted_gain - 1.0) * abs(base)
    was = f"was {base:.3f}"
    if baseline is not None and baseline.left_band_at_step is not None:
        was += f" until its KL left the band in step {baseline.left_band_at_step}"
    return [*found, Check(reached >= wanted, f"{word} {reached:.3f} (wanted {wanted:.3f}, {was})")]


def _rewards(figures: Figures, baseline: Baseline | None) -> tuple[str, float | None, float | None]:
    """(what is compared, the baseline's, the trial's): validation rewards where both were validated."""
    if baseline is None:
        return "reward", None, None
    base = baseline.figures
    if base.validation_reward is not None and figures.validation_reward is not None:
        return "validation reward", base.validation_reward, figures.validation_reward
    return "reward", base.reward, figures.reward


def stage_result(
    view: StageView, baseline: Baseline | None, *, carried: Overrides, overrides_of: dict[int, Overrides]
) -> StageResult:
    """How the stage ended: the best trial, whether acceptance was met, what is handed on.

    Args:
        view: The finished stage.
        baseline: As for `checks`.
        carried: Overrides of the earlier stages, handed on where nothing here is feasible.
        overrides_of: Trial number to everything laid over the job's own configuration.
    """
    accepted = sorted((t for t in view.trials if t.accepted), key=_rank, reverse=True)
    usable = accepted or sorted(
        (t for t in view.trials if _is_usable(view, t, baseline)), key=_rank, reverse=True
    )
    best = usable[0] if usable else None
    statement = "no trial completed within the limits"
    if best is not None and best.verdict is not None:
        conditions = checks(view.section, best.verdict, baseline)
        word = "met" if accepted else "not met"
        statement = f"acceptance {word} by #{best.number}: " + "; ".join(c.text for c in conditions)
    return StageResult(
        stage=view.stage,
        trials=len(view.trials),
        accepted=tuple(t.number for t in accepted),
        acceptance_met=bool(accepted),
        best=None if best is None else best.number,
        statement=statement,
        baseline=None if baseline is None else baseline.figures,
        best_figures=best.verdict.figures if best is not None and best.verdict is not None else None,
        overrides=carried if best is None else overrides_of[best.number],
    )


def _rank(trial: TrialView) -> float:
    return trial.objective if trial.objective is not None else float("-inf")


def _is_usable(view: StageView, trial: TrialView, baseline: Baseline | None) -> bool:
    """Completed inside every limit, wanted gains apart; for survive without acceptance nothing is.

    Quality's own start is usable whatever its KL is: it is what the user has without this stage.
    """
    if not trial.is_complete or trial.verdict is None or isinstance(view.section, SurviveStage):
        return False
    if not isinstance(view.section, QualityStage):
        return all(c.met for c in checks(view.section, trial.verdict, baseline) if not c.is_goal)
    if not _memory(trial.verdict.figures, view.section.peak_memory_frac).met:
        return False
    kl = trial.verdict.figures.kl
    return kl is None or kl <= view.section.kl_band[1] or view.is_start(trial)
