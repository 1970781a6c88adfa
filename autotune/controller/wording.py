"""What the controller says of a trial: one line for the watcher, one fault for the user."""

from __future__ import annotations

from autotune.controller.flight import Flight
from autotune.errors import Fault, UserCodeError
from autotune.job.model import ResourceSection
from autotune.ladder.view import TrialView
from autotune.records import StageName, Verdict
from autotune.trial.preparation import Refusal
from autotune.verl_config.training_shape import GPUS


def outcome_line(stage: StageName, view: TrialView) -> str:
    """Outcome, cause and figures of an ended trial."""
    assert view.verdict is not None
    figures, failure = view.verdict.figures, view.verdict.failure
    parts = [
        f"{stage.value} #{view.number}: {view.verdict.outcome.value}{', accepted' if view.accepted else ''}"
    ]
    if view.verdict.reason:
        parts.append(view.verdict.reason)
    if failure is not None:
        parts.append(f"{failure.kind} in {failure.phase}: {failure.cause}")
    if figures.peak_memory_frac is not None:
        parts.append(f"peak memory {figures.peak_memory_frac:.0%}")
    if figures.tokens_per_s_per_gpu is not None:
        parts.append(f"{figures.tokens_per_s_per_gpu:.0f} tokens/s/GPU")
    if figures.reward is not None:
        parts.append(f"reward {figures.reward:.3f}")
    if figures.kl is not None:
        parts.append(f"KL {figures.kl:.4f}")
    return "; ".join(parts)


def users_fault(stage: StageName, flight: Flight, verdict: Verdict) -> UserCodeError:
    """The message that stops the study where the user's own code or data is at fault."""
    failure = verdict.failure
    assert failure is not None
    return UserCodeError(
        Fault(
            where=f"{stage.value} #{flight.number}",
            key=failure.kind,
            found=failure.line or failure.cause,
            next_step=f"{failure.cause} Mend it and run the same command again; "
            f"`autotune show {flight.number} --stage {stage.value}` has the console log",
        )
    )


def too_large(gpus: int, largest: int, resources: ResourceSection) -> Refusal:
    """The refusal of a candidate that would wait for ever: no node has, or will have, what it asks for."""
    is_cpu = resources.device == "cpu"
    room = "resources.trials_at_once * gpus_per_trial" if is_cpu else "the cluster's largest node"
    unit = "ranks" if is_cpu else "GPUs"
    found = f"{GPUS} asks for {gpus} {unit}; {room} has {largest}"
    return Refusal((Fault(where="resources", key=GPUS, found=found, allowed=f"at most {largest}"),))
