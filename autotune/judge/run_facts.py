"""What the judge has to know of a run's configuration to name its figures rightly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.job.model import Job
from autotune.records import Value

_ESTIMATOR_KEYS = {
    "actor/kl_loss": "actor_rollout_ref.actor.kl_loss_type",
    "actor/reward_kl_penalty": "algorithm.kl_penalty",
}
_ESTIMATORS = {
    "kl": "k1",
    "k1": "k1",
    "mse": "k2",
    "k2": "k2",
    "low_var_kl": "k3",
    "k3": "k3",
    "abs": "abs",
}
"""verl's names (verl 0.9.1 trainer/ppo/core_algos.py:2228-2251) to those of the literature."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Empty where the configuration is not known, as for a log that somebody else wrote."""

    kl_estimator: str = ""
    """`k1`, `k2`, `k3` or `abs`: estimators of one KL differ by more than a band is wide."""
    response_limit_tokens: int | None = None
    """A response of this length was cut off."""
    loader_workers: int | None = None
    """data.dataloader_num_workers."""
    watch_input: bool = False
    """Whether the job wants to be told where steps wait for prompts."""


UNKNOWN = RunFacts()
"""Of a run whose configuration nobody has."""


def run_facts(flat: Mapping[str, Value], job: Job) -> RunFacts:
    """The facts of one of the job's runs, from its flat, resolved verl configuration."""
    kl_metric = job.guards.kl_metric
    name = flat.get(_ESTIMATOR_KEYS.get(kl_metric, ""))
    return RunFacts(
        # A trailing + changes the gradient of the estimate, not its value.
        kl_estimator=_ESTIMATORS.get(str(name).rstrip("+"), "") if name is not None else "",
        response_limit_tokens=_whole(flat.get("data.max_response_length")),
        loader_workers=_whole(flat.get("data.dataloader_num_workers")),
        watch_input=bool(job.extensions.input_pipeline),
    )


def _whole(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
