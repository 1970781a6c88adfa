"""The comment above an exported configuration: what it is, what it reached, on what that rests."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.export.provenance import Provenance
from autotune.job.secrets import is_secret
from autotune.ladder.finish_words import label
from autotune.records import Figures, FinishVerdict, StageName, StageResult


@dataclass(frozen=True, kw_only=True)
class ExportFacts:
    """What the header tells."""

    job_name: str
    results: Sequence[StageResult]
    """Of the stages that ended, in climbing order; the last one's best trial is exported."""
    provenance: Provenance
    environment: Mapping[str, str]
    """Extra environment variables that the trials' verl process had."""
    extensions: Sequence[str] = ()
    """autotune's extensions of verl that the configuration switches on."""
    finish: FinishVerdict | None = None
    """The finish's word; None where none was run."""

    @property
    def shipped(self) -> StageResult | None:
        """The stage whose best trial this is; None where the user's own configuration is exported."""
        found = [result for result in self.results if result.best is not None]
        return found[-1] if found else None


def header(facts: ExportFacts, how_to_run: Sequence[str]) -> str:
    """Comment lines, for YAML and shells alike; nothing in the facts can end the comment."""
    lines = [
        *_what(facts),
        *_confirmed(facts),
        *_how(facts, how_to_run),
        *_reached(facts),
        *_rests_on(facts.provenance),
    ]
    return "".join(f"# {_on_one_line(line)}".rstrip() + "\n" for line in lines)


def _on_one_line(text: str) -> str:
    """Line breaks and control characters as spaces: YAML takes neither in a comment."""
    return "".join(character if character.isprintable() else " " for character in text)


def _what(facts: ExportFacts) -> Iterator[str]:
    version = facts.provenance.versions.get("verl-autotune", "")
    yield f"Exported by verl-autotune {version}".rstrip()
    shipped = facts.shipped
    if shipped is None:
        yield f"job {facts.job_name}: the user's own configuration, since no trial is a stage's best"
    else:
        yield f"job {facts.job_name}, stage {shipped.stage.value}, trial {shipped.best}"


def _confirmed(facts: ExportFacts) -> Iterator[str]:
    """Whether cold runs on fresh seeds bear the figures out; a search's own figures flatter its winner."""
    shipped, verdict = facts.shipped, facts.finish
    if shipped is None:
        return
    yield label(verdict, shipped.overrides)
    if verdict is not None and dict(verdict.winner) == dict(shipped.overrides):
        seeds = ", ".join(map(str, verdict.seeds))
        if seeds:
            yield f"  {verdict.steps} steps a run, seeds {seeds}, confidence {verdict.confidence:g}"
        yield from (f"  {note}" for note in verdict.notes)


def _how(facts: ExportFacts, how_to_run: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "Run it:"
    for name, value in facts.environment.items():
        secret = is_secret(name, value)
        yield f"  export {name}={'...  (a secret: set it yourself)' if secret else shlex.quote(value)}"
    yield from (f"  {line}" for line in how_to_run)
    if facts.extensions:
        yield f"Uses {', '.join(facts.extensions)}, which verl itself does not have: verl-autotune has to be"
        yield "installed beside verl, and VERL_USE_EXTERNAL_MODULES has to name its plugin, as above."


def _reached(facts: ExportFacts) -> Iterator[str]:
    yield ""
    yield "Reached:"
    if not facts.results:
        yield "  no stage has ended"
    for result in facts.results:
        met = "met" if result.acceptance_met else "NOT met"
        yield f"  {result.stage.value}: acceptance {met}: {result.statement}"
        if result.best_figures is not None:
            yield f"    trial {result.best}: {_figures(result, result.best_figures)}"


def _figures(result: StageResult, best: Figures) -> str:
    baseline = result.baseline or Figures()
    whose = "survivor's" if result.stage is StageName.SPEED else "baseline's"
    parts = []
    if best.peak_memory_frac is not None:
        size = "" if best.peak_memory_gb is None else f" ({best.peak_memory_gb:.3g} GB)"
        phase = f" in {best.peak_memory_phase}" if best.peak_memory_phase else ""
        parts.append(f"peak memory {100 * best.peak_memory_frac:.1f} %{size}{phase}")
    for name, ours, theirs in (
        ("tokens/s/GPU", best.tokens_per_s_per_gpu, baseline.tokens_per_s_per_gpu),
        ("reward", best.reward, baseline.reward),
        ("KL", best.kl, baseline.kl),
    ):
        if ours is not None:
            parts.append(f"{name} {ours:.4g}{_against(ours, theirs, whose)}")
    return "; ".join(parts) or "no figures"


def _against(ours: float, theirs: float | None, whose: str) -> str:
    if theirs is None:
        return ""
    ratio = f", {ours / theirs:.2f}x" if theirs > 0 else ""
    return f" (the {whose}: {theirs:.4g}{ratio})"


def _rests_on(provenance: Provenance) -> Iterator[str]:
    yield ""
    yield "Rests on:"
    yield "  " + ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
    yield f"  Python {provenance.python}, {provenance.cpu_count} CPUs, {provenance.memory_gb:.1f} GB memory"
    driver = f", driver {provenance.driver}" if provenance.driver else ""
    yield f"  GPUs: {', '.join(provenance.gpus)}{driver}" if provenance.gpus else "  no GPU"
    yield f"  commit {provenance.commit or 'unknown: not started in a git checkout'}"
    if provenance.seeds:
        yield "  seeds: " + ", ".join(f"{stage} {seed}" for stage, seed in provenance.seeds.items())
