"""How long samples will be, and how many tokens the fullest micro batch of a run holds.

Without measured lengths a run is judged by what its data usually gives, not by its limits: with padding
removed, only real tokens take memory. The survive certificate and `Lengths.at_limit` are for the limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.forecast.keys import ROLLOUT, Flat, count

TYPICAL_FILL = 0.25
"""Mean sample over prompt + response limit where the data are unknown. GSM8K in verl's own example
setting (512 + 1024) gives 389 / 1536 = 0.25, with the means below."""
KNOWN_DATA_TOKENS = {"gsm8k": (105.0, 284.0)}
"""Mean prompt and response. verl's quickstart (docs/start/quickstart.rst) logs prompt_length/mean 104.9 and
response_length/mean 239 at a limit of 256; another public verl log of it has 232 there with 61 % of the
responses cut. A spread of 0.35 with 61 % over 256 puts the uncut mean at 256 / (1 - 0.28 * 0.35) = 284."""
SPREAD = 0.3
"""Standard deviation over mean of a sample's tokens: responses of 65 to 256 about a mean of 167 in a
public verl log of GSM8K span about six deviations, (256 - 65) / 6 / 167 = 0.2, cut at the top."""
SAME_PROMPT_CORRELATION = 0.5
"""Between the lengths of two responses to one prompt (assumed: half of the spread is the question's)."""
FULLEST_DEVIATIONS = 3.0
"""The fullest of several hundred micro batches: the expected maximum of 300 to 1000 normal draws is 2.9
to 3.2 deviations over the mean."""


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Mean tokens of the samples of a job."""

    prompt_tokens: float
    response_tokens: float
    spread: float = SPREAD
    """Standard deviation of a sample's tokens, over their mean."""

    @property
    def sample_tokens(self) -> float:
        """Mean tokens of prompt and response."""
        return self.prompt_tokens + self.response_tokens

    @classmethod
    def at_limit(cls, flat: Flat) -> Lengths:
        """Every prompt and response at its limit."""
        prompt, response = limits(flat)
        return cls(prompt_tokens=prompt, response_tokens=response, spread=0.0)


def limits(flat: Flat) -> tuple[float, float]:
    """The longest prompt and response, in tokens."""
    return float(count(flat, "data.max_prompt_length", 512)), float(
        count(flat, "data.max_response_length", 512)
    )


def expected_lengths(flat: Flat) -> Lengths:
    """What the job's data usually gives, cut at the limits."""
    prompt_limit, response_limit = limits(flat)
    files = flat.get("data.train_files")
    names = [str(name).lower() for name in (files if isinstance(files, list) else str(files).split(","))]
    for known, (prompt, response) in KNOWN_DATA_TOKENS.items():
        if all(known in name for name in names):
            return Lengths(
                prompt_tokens=min(prompt, prompt_limit), response_tokens=min(response, response_limit)
            )
    return Lengths(prompt_tokens=TYPICAL_FILL * prompt_limit, response_tokens=TYPICAL_FILL * response_limit)


def fullest_tokens(flat: Flat, lengths: Lengths, samples: float, *, padded: bool = False) -> float:
    """Tokens of the fullest micro batch of `samples` samples that a run of usual length meets.

    Args:
        flat: The resolved configuration (limits, responses to a prompt).
        lengths: Means of the data.
        samples: Samples of one micro batch.
        padded: Every sample is as long as the longest one.
    """
    longest = sum(limits(flat))
    if padded:
        top = lengths.sample_tokens * (1.0 + FULLEST_DEVIATIONS * lengths.spread)
        return samples * min(top, longest)
    together = min(float(count(flat, f"{ROLLOUT}.n")), samples)
    inflation = 1.0 + (together - 1.0) * SAME_PROMPT_CORRELATION
    deviation = lengths.spread * math.sqrt(inflation / max(samples, 1.0))
    return samples * min(lengths.sample_tokens * (1.0 + FULLEST_DEVIATIONS * deviation), longest)
