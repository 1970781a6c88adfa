"""The tiny job's reward (verl's `reward.custom_reward_function.path`): the share of words that end in a."""

from __future__ import annotations

from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> float:
    """Returns how much of the answer ends in `ground_truth`, from 0 to 1; an empty answer is worth 0."""
    words = solution_str.split()
    if not words:
        return 0.0
    return sum(word.endswith(ground_truth) for word in words) / len(words)
