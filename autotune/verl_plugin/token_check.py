"""Checks once that masks and ids are what the chat template says, and says so among verl's metrics.

After the first step's responses are there, up to 64 of them are compared: the prompt's ids with the chat
template over the raw messages, the response mask's length and values with the response, and the end of
the response with the tokenizer's end token or the length limit. What does not agree is printed with its
sample, and counted in `autotune/token_faults` of the first step. Single-turn text prompts only: a tool's
turns or an image's tokens are not in the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

from autotune.verl_plugin.after_import import after_import

TRAINER_MODULE = "verl.trainer.ppo.v1.trainer_base"
FAULTS = "autotune/token_faults"
CHECKED = "autotune/tokens_checked"
SAMPLES = 64
FIELDS = ["prompts", "responses", "response_mask", "raw_prompt"]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One response as verl trains on it."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    response_mask: Sequence[int]
    messages: Sequence[dict[str, Any]]


def turn_on() -> None:
    """Check the first batch of this process's trainer."""

    def patch(module: Any) -> None:
        trainer = module.PPOTrainer
        trainer._compute_metrics = checking_once(trainer._compute_metrics, module)

    after_import(TRAINER_MODULE, patch)


def checking_once(compute: Callable[..., Any], module: Any) -> Callable[..., Any]:
    """Wraps verl's `_compute_metrics` (trainer_base.py:1868) with the check in the first step."""
    done = False

    @wraps(compute)
    def checked(trainer: Any, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal done
        result = compute(trainer, batch, metrics, *args, **kwargs)
        if not done:
            done = True
            # A check must not end a training; without a figure the judge says that it did not run.
            with suppress(Exception):
                metrics.update(_check(trainer, batch, module.tq))
        return result

    return checked


def faults_of(
    sample: Sample, template: Callable[[Any], Sequence[int]], ends: Sequence[int], limits: tuple[int, int]
) -> Iterator[str]:
    """What does not agree in one sample.

    Args:
        sample: The response with its prompt.
        template: Messages to the ids that the chat template and the tokenizer make of them.
        ends: Token ids that end a response.
        limits: Longest prompt and longest response, in tokens.
    """
    prompt, response, mask = sample.prompt_ids, sample.response_ids, sample.response_mask
    expected = list(template(sample.messages))
    # verl cuts a prompt that is too long at its beginning (agent_loop.py:437).
    if list(prompt) != expected[-limits[0] :]:
        place = next((i for i, (a, b) in enumerate(zip(prompt, expected, strict=False)) if a != b), None)
        where = f"from token {place} on" if place is not None else "in length"
        yield f"the prompt's {len(prompt)} ids differ from the chat template's {len(expected)} {where}"
    if len(mask) != len(response):
        yield f"the response mask has {len(mask)} entries for {len(response)} ids"
    elif set(mask) - {0, 1}:
        yield f"the response mask has values besides 0 and 1: {sorted(set(mask))[:5]}"
    elif not all(mask):
        yield f"{list(mask).count(0)} ids of a single response are masked out"
    if response and response[-1] not in ends and len(response) < limits[1]:
        yield f"the response ends with token {response[-1]} at {len(response)} of {limits[1]} tokens"


def _check(trainer: Any, batch: Any, tq: Any) -> dict[str, float]:
    own = [k for k, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding")][:SAMPLES]
    data = tq.kv_batch_get(keys=own, partition_id=batch.partition_id, select_fields=FIELDS)
    config, tokenizer = trainer.config, trainer.tokenizer
    arguments = dict(config.data.get("apply_chat_template_kwargs") or {})

    def template(messages: Any) -> Sequence[int]:
        ids: Sequence[int] = tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=True, return_dict=False, **arguments
        )
        return ids

    limits = (int(config.data.max_prompt_length), int(config.data.max_response_length))
    found = 0
    samples = _samples(data)
    for index, sample in enumerate(samples):
        faults = list(faults_of(sample, template, _ends(tokenizer, config), limits))
        found += bool(faults)
        for fault in faults:
            print(f"autotune token check: sample {index}: {fault}", flush=True)  # noqa: T201
    return {FAULTS: float(found), CHECKED: float(len(samples))}


def _samples(data: Any) -> list[Sample]:
    columns = [data[name].unbind() for name in FIELDS[:3]]
    return [
        Sample(
            prompt_ids=prompt.tolist(),
            response_ids=response.tolist(),
            response_mask=mask.tolist(),
            messages=messages,
        )
        for prompt, response, mask, messages in zip(*columns, list(data["raw_prompt"]), strict=True)
    ]


def _ends(tokenizer: Any, config: Any) -> list[int]:
    """The tokenizer's end token, and those of the model's generation settings where they are found."""
    found = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    with suppress(Exception):
        from transformers import GenerationConfig

        ends = GenerationConfig.from_pretrained(config.actor_rollout_ref.model.path).eos_token_id
        found.update(ends if isinstance(ends, list) else [ends])
    return [end for end in found if end is not None]
