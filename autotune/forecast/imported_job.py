"""A first job file from somebody's own launch: verl's command as it is, with what is known of its needs."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from autotune.forecast.hardware import Gpu, Host
from autotune.forecast.model_facts import ModelFacts
from autotune.job.secrets import is_secret
from autotune.job.shipped import shipped
from autotune.job.starter import closing_sections, shipped_spaces
from autotune.records import Value
from autotune.verl_config.launch_script.reading import LaunchScript
from autotune.verl_config.training_shape import TrainingShape
from autotune.verl_config.validation import PromptLengths

BUDGET_KEY = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
_DYNAMIC = "actor_rollout_ref.actor.use_dynamic_bsz"
_MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
_OWN_VARIABLES = re.compile(
    r"(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|RAY_.*|MASTER_(ADDR|PORT)|PATH|TMPDIR"
)
"""What autotune decides for each trial."""
_TYPICAL_MICRO_SAMPLES = 8
"""Samples of a micro batch where the script names none: the middle of the usual 4 to 16."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What was found out beside the script itself; None and empty: nothing."""

    gpus: Sequence[Gpu] = ()
    host: Host | None = None
    model: ModelFacts | None = None
    lengths: PromptLengths | None = None
    notes: tuple[str, ...] = ()
    """What could not be found out, and why."""


@dataclass(frozen=True, kw_only=True)
class TokenBudget:
    """Where the token budget of dynamic batches starts."""

    tokens: int
    why: str
    is_set: bool
    """False where it is a proposal only: the user has a budget, or counts samples instead of tokens."""


@dataclass(frozen=True, kw_only=True)
class ImportedJob:
    """The job file's text and what a person should be told about it."""

    text: str
    gpus: int
    algorithm: str
    budget: TokenBudget | None = None
    withheld: tuple[str, ...] = field(default=())
    """Names of environment variables that were not written: secrets, and what autotune sets itself."""
    notes: tuple[str, ...] = ()
    """What was found out about machine, model and data, as it stands at the file's top."""


def imported_job(
    name: str,
    launch: LaunchScript,
    flat: Mapping[str, Value],
    source: str,
    around: Surroundings,
    device: str = "gpu",
) -> ImportedJob:
    """The job that climbs from what `launch` starts.

    Args:
        name: Job name.
        launch: With config_path and config_name as a job has them.
        flat: verl's defaults with the launch's overrides, as far as they could be composed.
        source: The script's name, for the comment at the top.
        around: Machine, model and data.
        device: `gpu`, or `cpu`.
    """
    gpus = gpus_per_node(flat)
    algorithm = "ppo" if TrainingShape(flat, gpus).uses_critic else "grpo"
    budget = token_budget(launch, flat, around.lengths)
    kept, withheld = _environment(launch.environment)
    spaces = {stage: _space(space, flat) for stage, space in shipped_spaces(algorithm, device).items()}
    notes = _findings(around, flat, budget)
    text = "".join(
        [
            _head(name, launch, source, notes),
            _verl(launch, kept, withheld, budget),
            "\n",
            closing_sections(gpus, device, spaces, _kl_metric(flat)),
        ]
    )
    return ImportedJob(
        text=text, gpus=gpus, algorithm=algorithm, budget=budget, withheld=withheld, notes=tuple(notes)
    )


def gpus_per_node(flat: Mapping[str, Value]) -> int:
    """trainer.n_gpus_per_node; verl's own default of 8 where it is not known."""
    value = flat.get("trainer.n_gpus_per_node")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 8


def token_budget(
    launch: LaunchScript, flat: Mapping[str, Value], lengths: PromptLengths | None
) -> TokenBudget | None:
    """(mean prompt + mean response) x samples per micro batch, never under the longest sample.

    Before a run nobody knows the responses: half of their limit stands for their mean. None without
    measured prompts.
    """
    limit, prompt_limit = flat.get("data.max_response_length"), flat.get("data.max_prompt_length")
    if lengths is None or not isinstance(limit, int) or not isinstance(prompt_limit, int):
        return None
    micro = flat.get(_MICRO)
    samples = micro if isinstance(micro, int) and not isinstance(micro, bool) else _TYPICAL_MICRO_SAMPLES
    longest = min(lengths.longest, prompt_limit) + limit
    mean_prompt = min(lengths.mean, float(prompt_limit))
    mean = mean_prompt + limit / 2
    tokens = max(math.ceil(mean * samples), longest)
    why = (
        f"(mean prompt {mean_prompt:.0f} + half the response limit {limit / 2:.0f}) x {samples} samples"
        f" a micro batch = {mean * samples:.0f} tokens; the longest sample may have {longest}"
    )
    given = {key.lstrip("+") for key in launch.overrides}
    is_set = flat.get(_DYNAMIC) is True and BUDGET_KEY not in given
    return TokenBudget(tokens=tokens, why=why, is_set=is_set)


def _kl_metric(flat: Mapping[str, Value]) -> str | None:
    if flat.get("actor_rollout_ref.actor.use_kl_loss"):
        return "actor/kl_loss"
    return "actor/reward_kl_penalty" if flat.get("algorithm.use_kl_in_reward") else None


def _environment(given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    withheld = tuple(
        name for name, value in given.items() if is_secret(name, value) or _OWN_VARIABLES.fullmatch(name)
    )
    return {name: value for name, value in given.items() if name not in withheld}, withheld


def _space(name: str, flat: Mapping[str, Value]) -> str:
    """The shipped space's name, or its parameters without those that this verl engine does not have."""
    file = shipped("search_spaces", name)
    assert file is not None
    space = yaml.safe_load(file.read_text(encoding="utf-8"))
    known = {key: value for key, value in space["parameters"].items() if key in flat or key.startswith("+")}
    if not known or len(known) == len(space["parameters"]):
        return name
    text = yaml.safe_dump({"parameters": known}, sort_keys=False, width=110)
    return f"  # {name}, without what this engine does not have\n" + textwrap.indent(text, "      ").rstrip()


def _head(name: str, launch: LaunchScript, source: str, findings: Iterable[str]) -> str:
    lines = [f"From {source}, line {launch.line}. `autotune run THIS_FILE --dry-run` tells what it would do."]
    return "".join([_comment([*lines, *findings]), f"name: {_quoted(name)}\n\n"])


def _findings(around: Surroundings, flat: Mapping[str, Value], budget: TokenBudget | None) -> list[str]:
    found = [_machine(around)]
    if around.model is not None:
        model = around.model
        experts = (
            f", {model.experts} experts of which a token meets {model.experts_per_token}"
            if model.experts
            else ""
        )
        found.append(
            f"Model: {model.architecture}, {model.layers} layers of {model.hidden}{experts},"
            f" {_size(model.parameters())} parameters."
        )
    if around.lengths is not None:
        found.append(_data(around.lengths, flat))
    if budget is not None and not budget.is_set:
        found.append(f"A token budget to start from ({BUDGET_KEY}): {budget.tokens}. {budget.why}.")
    return [*found, *around.notes]


def _size(parameters: int) -> str:
    return f"{parameters / 1e9:.2f} billion" if parameters >= 1e8 else f"{parameters / 1e6:.2f} million"


def _machine(around: Surroundings) -> str:
    names: dict[str, int] = {}
    for gpu in around.gpus:
        label = f"{gpu.name} with {gpu.total_gb:.0f} GB"
        names[label] = names.get(label, 0) + 1
    gpus = ", ".join(f"{count} x {label}" for label, count in names.items()) or "no GPU"
    host = around.host
    return f"Read on a machine with {gpus}" + (
        f", {host.cpu_count} processors and {host.memory_gb:.0f} GB." if host else "."
    )


def _data(lengths: PromptLengths, flat: Mapping[str, Value]) -> str:
    counted = "" if lengths.counted == lengths.rows else f" ({lengths.counted} counted)"
    quantiles = ", ".join(f"{part:.0%} {tokens}" for part, tokens in lengths.quantiles_tokens.items())
    limit = flat.get("data.max_prompt_length")
    masks = "" if lengths.masks_fit else " Attention masks and ids differ in length: look at the tokenizer."
    return (
        f"Data: {lengths.rows} prompts{counted}; tokens with the chat template: {quantiles}, longest"
        f" {lengths.longest}; {lengths.over_limit_frac:.1%} over data.max_prompt_length={limit}.{masks}"
    )


def _verl(
    launch: LaunchScript, environment: Mapping[str, str], withheld: Sequence[str], budget: TokenBudget | None
) -> str:
    lines = ["verl:", f"  entry: {_quoted(launch.entry)}"]
    if launch.config_path is not None:
        lines.append(f"  config_path: {_quoted(launch.config_path)}")
    lines.append(f"  config_name: {_quoted(launch.config_name or 'ppo_trainer')}")
    lines += _unresolved(launch)
    lines.append("  overrides:" if launch.overrides or (budget and budget.is_set) else "  overrides: {}")
    lines += [f"    {_key(key)}: {_quoted(value)}" for key, value in launch.overrides.items()]
    if budget is not None and budget.is_set:
        lines += _comment([f"From the data: {budget.why}."], indent="    ").splitlines()
        lines.append(f"    {BUDGET_KEY}: {budget.tokens}")
    if withheld:
        lines.append(f"  # Not taken over: {', '.join(withheld)} (secrets, or autotune's own to set).")
    if environment:
        lines.append("  environment:")
        lines += [f"    {_key(name)}: {_quoted(value)}" for name, value in environment.items()]
    return "\n".join(lines) + "\n"


def _unresolved(launch: LaunchScript) -> list[str]:
    if not launch.unresolved:
        return []
    lines = ["  # Not known without running the script; give these a value below, or leave them out:"]
    for one in launch.unresolved:
        entry = f"line {one.line}: {one.text} -- {one.why}"
        lines += _comment([entry], indent="  ").splitlines()
    return lines


def _comment(paragraphs: Iterable[str], indent: str = "") -> str:
    """YAML comment lines; whatever a script holds stays on its line of comment."""
    lines: list[str] = []
    for text in paragraphs:
        clean = " ".join(_printable(text).split())
        lines += textwrap.wrap(
            clean,
            width=108 - len(indent),
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() or character.isspace() else "?" for character in text)


def _key(key: str) -> str:
    return key if re.fullmatch(r"\+?[A-Za-z_][\w.]*", key) else _quoted(key)


def _quoted(value: Value) -> str:
    """YAML in JSON's notation, texts in double quotes."""
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = json.dumps(value)
    # YAML 1.1 reads 1e-06 as text; a dot makes it a number for every reader.
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text
