"""Levers that the decisive line itself prescribes: it prints two figures, and one must meet the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import ceil, floor

from autotune.records import Value
from autotune.search.move import Move

_ACTOR = "actor_rollout_ref.actor."
_ROLLOUT = "actor_rollout_ref.rollout."
_REF = "actor_rollout_ref.ref."

_Values = Mapping[str, Value]
_Prescription = Callable[[re.Match[str], _Values], list[Move]]


def line_levers(line: str, values: _Values) -> list[Move]:
    """The moves that the line's own figures give; empty where it gives none."""
    for pattern, prescribe in _PRESCRIPTIONS:
        found = pattern.search(line)
        if found is not None:
            return prescribe(found, values)
    return []


def _move(key: str, values: _Values, after: Value, why: str) -> Move:
    return Move(key, values.get(key), after, why)


def _longest(values: _Values) -> int | None:
    prompt, response = values.get("data.max_prompt_length"), values.get("data.max_response_length")
    return prompt + response if isinstance(prompt, int) and isinstance(response, int) else None


def _batched_tokens(found: re.Match[str], values: _Values) -> list[Move]:
    needed, longest = int(found["length"]), _longest(values)
    moves = []
    if longest is not None and longest < needed:
        why = "prompt + response of this run, not the model's longest"
        moves.append(_move(_ROLLOUT + "max_model_len", values, longest, why))
        needed = longest
    if int(found["tokens"]) < needed:
        why = "without chunked prefill a whole sequence must fit"
        moves.append(_move(_ROLLOUT + "max_num_batched_tokens", values, needed, why))
    return moves or [_move(_ROLLOUT + "enable_chunked_prefill", values, True, "splits long prompts")]


def _token_budget(found: re.Match[str], values: _Values) -> list[Move]:
    longest = int(found["longest"]) if found["longest"] else _longest(values)
    keys = [_ACTOR + "ppo_max_token_len_per_gpu", _ROLLOUT + "log_prob_max_token_len_per_gpu"]
    if values.get(_ACTOR + "use_kl_loss") or values.get("algorithm.use_kl_in_reward"):
        keys.append(_REF + "log_prob_max_token_len_per_gpu")
    shared_by = values.get(_ACTOR + "ulysses_sequence_parallel_size")
    after = None if longest is None else ceil(longest / (shared_by if isinstance(shared_by, int) else 1))
    return [_move(key, values, after, "must hold the longest prompt + response") for key in keys]


def _free_memory(found: re.Match[str], values: _Values) -> list[Move]:
    share = floor(float(found["free"]) / float(found["total"]) * 100 - 1) / 100
    key = _ROLLOUT + "gpu_memory_utilization"
    why = "what is free now; or end the other processes on the device and leave it"
    return [Move(key, values.get(key, float(found["asked"])), share, why)]


def _gpus(found: re.Match[str], values: _Values) -> list[Move]:
    there = int(float(found["there"]))
    if there < 1:
        return []
    nodes = values.get("trainer.nnodes")
    why = "what the cluster has free; or end what holds the rest"
    after = there // nodes if isinstance(nodes, int) and nodes > 1 else there
    return [_move("trainer.n_gpus_per_node", values, after or None, why)]


def _bucket(found: re.Match[str], values: _Values) -> list[Move]:
    new, old = "checkpoint_engine.update_weights_bucket_megabytes", "update_weights_bucket_megabytes"
    key = _ROLLOUT + (old if _ROLLOUT + old in values else new)
    before = values.get(key)
    if found["gb"]:
        after: Value = 1024 * ceil(float(found["gb"]))
    else:
        after = before * 2 if isinstance(before, int) else None
    return [Move(key, before, after, "the largest weight must fit into the bucket")]


def _divisor(found: re.Match[str], values: _Values) -> list[Move]:
    key = f"{_ACTOR}ppo_micro_batch_size_per_gpu"
    after: Value = None
    if found["mini"] and found["micro"]:
        mini, micro = int(found["mini"]), int(found["micro"])
        after = max(size for size in range(1, max(1, min(mini, micro)) + 1) if mini % size == 0)
    why = "must divide a rank's share of the mini batch"
    return [_move(key, values, after, why)]


def _chunks(found: re.Match[str], values: _Values) -> list[Move]:
    chunks = int(found["chunks"])
    before = values.get("data.train_batch_size")
    after: Value = chunks * ceil(before / chunks) if isinstance(before, int) else None
    return [Move("data.train_batch_size", before, after, f"samples must divide by {chunks} ranks")]


def _sequence_parallel(found: re.Match[str], values: _Values) -> list[Move]:
    del found
    key = _ACTOR + "ulysses_sequence_parallel_size"
    why = "must divide the model's attention heads"
    size = values.get(key)
    return [_move(key, values, size // 2 if isinstance(size, int) and size > 1 else None, why)]


def _probabilities(found: re.Match[str], values: _Values) -> list[Move]:
    del found
    why = "the correction needs the engine's own probabilities"
    return [_move(_ROLLOUT + "calculate_log_probs", values, True, why)]


def _unknown_key(found: re.Match[str], values: _Values) -> list[Move]:
    key = found["key"].lstrip("+")
    why = "verl does not have this key: correct its name or place, or leave it out (`autotune check`)"
    return [Move(key, values.get(key), None, why)]


def _micro_batch(found: re.Match[str], values: _Values) -> list[Move]:
    section = {"actor": _ACTOR, "rollout": _ROLLOUT, "ref": _REF, "critic": "critic."}[found["section"]]
    name = "ppo_micro_batch_size_per_gpu"
    if found["section"] in ("rollout", "ref"):
        name = "log_prob_micro_batch_size_per_gpu"
    return [
        _move(section + name, values, 1, "samples of one pass; start small"),
        _move(_ACTOR + "use_dynamic_bsz", values, True, "packs by tokens instead"),
    ]


_PRESCRIPTIONS: tuple[tuple[re.Pattern[str], _Prescription], ...] = tuple(
    (re.compile(pattern), prescribe)
    for pattern, prescribe in (
        (r"max_num_batched_tokens \((?P<tokens>\d+)\).*max_model_len \((?P<length>\d+)\)", _batched_tokens),
        (
            r"max_token_len must be greater than the sequence length"
            r"(?:.*max_seq_len\D{0,10}(?P<longest>\d+))?",
            _token_budget,
        ),
        (
            r"Free memory on device .*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*"
            r"utilization \((?P<asked>[\d.]+)",
            _free_memory,
        ),
        (r"Total available GPUs (?P<there>[\d.]+) is less than total desired GPUs", _gpus),
        (r"(?:= (?P<gb>[\d.]+)GB is )?too large (?:to fit in|for) the (?:\d+ MB )?bucket", _bucket),
        (
            r"ppo_mini_batch_size \D*(?P<mini>\d*)\D* should be (?:divisible by|larger than) "
            r"ppo_micro_batch_size_per_gpu \D*(?P<micro>\d*)",
            _divisor,
        ),
        (r"only support equal chunk\. Got size of DataProto \d+ and chunk (?P<chunks>\d+)", _chunks),
        (r"must be divisible by ulysses_s", _sequence_parallel),
        (r"calculate_log_probs=True", _probabilities),
        (r"(?:Could not override|Key) '(?P<key>[^']+)'", _unknown_key),
        (r"\[(?P<section>actor|rollout|ref|critic)\] Please set", _micro_batch),
    )
)
