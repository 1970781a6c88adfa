"""The recorded peaks as a landscape: what every point of a space would take, and what of it fits.

Recorded: the peak of a phase on real verl at one size (micro batch, or token budget). Derived: a point takes
its log-prob peaks from its log-prob size and its update peak from its update size, whatever trials showed
them. A size that was not recorded lies on the straight line between its neighbours, or at the last one; where
fewer than two token budgets of a phase were recorded, a budget takes the micro batch of as many samples of
full length. `how` says which of these a size's peak is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.forecast.keys import ACTOR, ROLLOUT
from autotune.job.space_resolution import ResolvedSpace
from autotune.records import Overrides, Value

LOG_PROB_PHASES = ("old_log_prob", "ref_log_prob")
UPDATE_PHASES = ("update_actor",)
PHASES = (*LOG_PROB_PHASES, *UPDATE_PHASES)
"""In a step's order."""
SAMPLE_TOKENS = 112
"""Prompt and response of the tiny job at their limits."""
Size = tuple[str, int]
"""`micro_batch` or `tokens`, and how many."""


@dataclass(frozen=True)
class Landscape:
    """Peaks in GB by size and phase."""

    recorded: Mapping[Size, Mapping[str, float]]
    """GB by size and phase."""
    model: Mapping[str, Any]
    """The model's config.json, as far as it decides memory."""

    @classmethod
    def read(cls, path: Path) -> Landscape:
        """The landscape of a file that `record` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        recorded: dict[Size, dict[str, float]] = {}
        for one in content["trials"]:  # what `record` measured comes last, and counts
            recorded.setdefault((one["kind"], one["size"]), {}).update(one["peaks_gb"])
        return cls(recorded, content["provenance"]["model"])

    def peaks_gb(self, value_of: Callable[[str], Value]) -> dict[str, float]:
        """Peaks by phase of a configuration, told key by key."""
        update, log_prob = sizes(value_of)
        by_phase = {phase: self._peak_gb(log_prob, phase) for phase in LOG_PROB_PHASES}
        return {**by_phase, **{phase: self._peak_gb(update, phase) for phase in UPDATE_PHASES}}

    def how(self, size: Size, phase: str) -> str:
        """Where the peak of this size comes from: `recorded`, `interpolated`, `nearest` or `equivalent`."""
        known = self._known(size[0], phase)
        if size[1] in known:
            return "recorded"
        if len(known) < 2:
            return "equivalent"
        return "interpolated" if min(known) < size[1] < max(known) else "nearest"

    def _known(self, kind: str, phase: str) -> dict[int, float]:
        return {n: peaks[phase] for (k, n), peaks in self.recorded.items() if k == kind and phase in peaks}

    def _peak_gb(self, size: Size, phase: str) -> float:
        kind, amount = size
        known = self._known(kind, phase)
        if amount not in known and len(known) < 2 and kind == "tokens":
            return self._peak_gb(("micro_batch", max(amount // SAMPLE_TOKENS, 1)), phase)
        below = max((n for n in known if n <= amount), default=min(known))
        above = min((n for n in known if n >= amount), default=max(known))
        if below == above:
            return known[below]
        if not below <= amount <= above:
            return known[min(known, key=lambda n: abs(n - amount))]
        share = (amount - below) / (above - below)
        return known[below] + share * (known[above] - known[below])


def sizes(value_of: Callable[[str], Value]) -> tuple[Size, Size]:
    """Size of the update and of the log-prob passes."""
    if value_of(f"{ACTOR}.use_dynamic_bsz"):
        keys = (f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.log_prob_max_token_len_per_gpu")
        kind = "tokens"
    else:
        keys = (f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu")
        kind = "micro_batch"
    update, log_prob = (value_of(key) for key in keys)
    assert isinstance(update, int)
    assert isinstance(log_prob, int)
    return (kind, update), (kind, log_prob)


def points(space: ResolvedSpace) -> Iterator[Overrides]:
    """Every point of a space of categorical parameters."""

    def below(chosen: dict[str, Value], index: int) -> Iterator[Overrides]:
        if index == len(space.parameters):
            yield chosen
            return
        parameter = space.parameters[index]
        if parameter not in space.active(chosen):
            yield from below(chosen, index + 1)
            return
        for choice in parameter.choices:
            yield from below({**chosen, parameter.key: choice}, index + 1)

    yield from below({}, 0)


@dataclass(frozen=True, kw_only=True)
class Tightness:
    """A device so small that about the wanted share of the space fits."""

    limit_gb: float
    """The stage's limit: a share of the device."""
    capacity_gb: float
    share: float
    """Of the space's points, under the limit."""
    share_without_oom: float
    """Of the space's points, under the device."""


def tightness(landscape: Landscape, space: ResolvedSpace, *, wanted: float, limit_frac: float) -> Tightness:
    """The limit whose share is nearest to `wanted`, half way between two peaks."""
    peaks = sorted(max(landscape.peaks_gb(params.get).values()) for params in points(space))
    levels = sorted(set(peaks))
    shares = {level: sum(peak <= level for peak in peaks) / len(peaks) for level in levels}
    level = min(levels, key=lambda one: abs(shares[one] - wanted))
    following = next((one for one in levels if one > level), level)
    limit_gb = (level + following) / 2
    capacity_gb = limit_gb / limit_frac
    return Tightness(
        limit_gb=limit_gb,
        capacity_gb=capacity_gb,
        share=shares[level],
        share_without_oom=sum(peak <= capacity_gb for peak in peaks) / len(peaks),
    )
