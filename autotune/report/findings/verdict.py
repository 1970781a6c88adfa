"""The first thing that a reader sees: is it better, by how much, and how sure is that?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.records import StageName
from autotune.report.findings.rungs import Rung
from autotune.report.wording import factor, percent

NOT_CONFIRMED = "not confirmed"


@dataclass(frozen=True, kw_only=True)
class ConfirmedMeasure:
    """One measure of the winner against the reference, over runs of both with the same fresh seeds."""

    name: str
    """`tokens/s/GPU`, `reward`, `peak memory`."""
    reference: float
    winner: float
    gain: float
    """winner/reference - 1 where `is_relative`, else their difference in the measure's unit."""
    low: float
    """Lower end of the gain's interval."""
    high: float
    is_relative: bool


@dataclass(frozen=True, kw_only=True)
class ConfirmedVerdict:
    """What the runs with fresh seeds say, once they are done."""

    word: str
    """`better`, `not better` or `inconclusive`."""
    statement: str
    """One sentence with the figures."""
    reference_name: str = "user configuration"
    """What the winner was compared with; the survivor where the user's own does not run."""
    measures: tuple[ConfirmedMeasure, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know besides."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The verdict in one word and one sentence, and what it rests on."""

    word: str
    """A confirmed verdict's word, else `not confirmed`."""
    sentence: str
    basis: str
    """What was measured, and what was not."""


def headline(rungs: Sequence[Rung], confirmed: ConfirmedVerdict | None) -> Headline:
    """What to say first; a confirmed verdict speaks for itself."""
    if confirmed is not None:
        return Headline(
            word=confirmed.word,
            sentence=confirmed.statement,
            basis=" ".join(
                (
                    f"The winner and the {confirmed.reference_name} ran again, with fresh seeds.",
                    *confirmed.notes,
                )
            ),
        )
    said = [text for rung in rungs if (text := _said(rung))]
    if not said:
        climbing = any(rung.state == "open" for rung in rungs)
        sentence = "Still searching for a configuration that runs" if climbing else "Nothing was tried yet"
        if any(rung.state == "ended" for rung in rungs):
            sentence = "No configuration was found that runs within the limits"
        return Headline(word=NOT_CONFIRMED, sentence=sentence + ".", basis="No stage has a best trial yet.")
    return Headline(
        word=NOT_CONFIRMED,
        sentence=_joined(said) + ".",
        basis="Measured while tuning, each stage against its own start; the winner was chosen for "
        "these figures, so expect somewhat less. It was not run again with fresh seeds against your "
        "own configuration.",
    )


def _said(rung: Rung) -> str:
    """A stage's part of the sentence; empty where it has nothing to say."""
    if rung.after is None:
        return ""
    if rung.stage is StageName.SURVIVE:
        peak = f"peaks at {percent(rung.after)} of the device"
        if rung.before_failure:
            return f"your configuration ended in {rung.before_failure}, the survivor {peak}"
        return f"the survivor {peak}"
    if rung.is_same:
        ended = "" if rung.state == "ended" else " so far"
        return f"nothing better than the {rung.before_name} in {rung.stage.value}{ended}"
    if rung.gain is None:
        return ""
    what = "the survivor's tokens/s/GPU" if rung.stage is StageName.SPEED else "the baseline's reward"
    return f"{factor(rung.gain)} {what}"


def _joined(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return text[0].upper() + text[1:]
