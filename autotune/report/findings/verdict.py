"""The first thing that a reader sees: is it better, by how much, and how sure is that?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.ladder.finish_words import AGAINST, label
from autotune.records import FinishVerdict, Overrides, StageName
from autotune.report.findings.rungs import Rung
from autotune.report.wording import factor, percent

NOT_CONFIRMED = "not confirmed"


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The verdict in one word and one sentence, and what it rests on."""

    word: str
    """The finish's word on the exported configuration, else `not confirmed`."""
    sentence: str
    basis: str
    """What was measured, and what was not."""


def is_of(finish: FinishVerdict | None, exported: Overrides) -> bool:
    """Whether the finish was run for the exported configuration."""
    return finish is not None and dict(finish.winner) == dict(exported)


def headline(rungs: Sequence[Rung], finish: FinishVerdict | None, exported: Overrides) -> Headline:
    """What to say first; the finish speaks for itself where it was run for the exported configuration."""
    if finish is not None and is_of(finish, exported):
        return _finished(finish)
    said = [text for rung in rungs if (text := _said(rung))]
    if not said:
        climbing = any(rung.state == "open" for rung in rungs)
        sentence = "Still searching for a configuration that runs" if climbing else "Nothing was tried yet"
        if any(rung.state == "ended" for rung in rungs):
            sentence = "No configuration was found that runs within the limits"
        return Headline(word=NOT_CONFIRMED, sentence=sentence + ".", basis="No stage has a best trial yet.")
    missing = "It was not run again with fresh seeds against your own configuration."
    if finish is not None:
        missing = _capital(label(finish, exported).partition(": ")[2]) + "."
    return Headline(
        word=NOT_CONFIRMED,
        sentence=_capital("; ".join(said)) + ".",
        basis="Measured while tuning, each stage against its own start; the winner was chosen for "
        f"these figures, so expect somewhat less. {missing}",
    )


def _finished(finish: FinishVerdict) -> Headline:
    """The statement begins with the verdict's word, which stands above it already."""
    ran = f"Cold runs of stock verl, {finish.steps} steps each, with seeds that no trial used before."
    if finish.reference is not None:
        ran += (
            f" The winner ran in turn with {AGAINST[finish.reference]}: {finish.pairs} of at most "
            f"{finish.pairs_planned} pairs. Were the two alike, it would be called better with a chance of "
            f"at most {percent(1.0 - finish.confidence)}. A claimed gain leaves out its share of luck"
            + (f", by {finish.pairs_after} pairs that ran after the decision." if finish.pairs_after else ".")
        )
    return Headline(
        word=finish.outcome.value,
        sentence=_capital(finish.statement.removeprefix(f"{finish.outcome.value}: ")) + ".",
        basis=" ".join((ran, *(f"{_capital(note.rstrip('.'))}." for note in finish.notes))),
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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
