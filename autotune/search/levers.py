"""What to change after a failure where there is no search space: the same levers, on a run's own values.

`repairs` moves a trial inside its space. Here only the configuration is known, as far as a log shows
it, so a lever names the key, the value there and the value to try; unknown values stay empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import floor, log10

from autotune.judge.kinds import FailureKind
from autotune.records import Value
from autotune.search.line_levers import line_levers
from autotune.search.move import Move
from autotune.search.repairs import LEVERS, Lever

_ACTOR = "actor_rollout_ref.actor."
_ROLLOUT = "actor_rollout_ref.rollout."
_REF = "actor_rollout_ref.ref."
_MODEL = "actor_rollout_ref.model."
_LARGEST_UTILIZATION = 0.95

_ALSO: Mapping[str, tuple[Lever, ...]] = {
    "oom_gpu_actor_update": (
        Lever(
            _MODEL + "use_fused_kernels", "never holds all logits (not with sequence parallelism)", to=True
        ),
        Lever(_ACTOR + "ulysses_sequence_parallel_size", "one sequence shared by more devices", factor=2.0),
    ),
    "oom_gpu_log_prob": (Lever(_ACTOR + "calculate_entropy", "only the log-probabilities", to=False),),
    "oom_host_ram": (
        Lever("data.dataloader_num_workers", "fewer copies of the data set", factor=0.5),
        Lever("data.train_batch_size", "fewer samples in the driver", factor=0.5),
        Lever("data.val_batch_size", "fewer samples in the driver", factor=0.5),
    ),
    "oom_host_ckpt": (
        Lever(_ACTOR + "checkpoint.save_contents", "saves the model only", to=["model"]),
        Lever(_ACTOR + "fsdp_config.optimizer_offload", "less host memory", to=False),
        Lever(_ACTOR + "fsdp_config.param_offload", "less host memory", to=False),
    ),
    "oom_gpu_checkpoint": (Lever(_ACTOR + "checkpoint.save_contents", "saves the model only", to=["model"]),),
    "data_length": (
        Lever("data.filter_overlong_prompts", "leaves out prompts over the limit", to=True),
        Lever("data.truncation", "cuts prompts instead of failing", to="left"),
    ),
    "train_infer_mismatch": (
        Lever(_ROLLOUT + "calculate_log_probs", "the correction needs the engine's probabilities", to=True),
        Lever(_ROLLOUT + "dtype", "the trainer's precision", to="bfloat16"),
    ),
    "hang_init": (Lever("ray_kwargs.ray_init.num_cpus", "verl's actors wait for CPUs for ever", to=64),),
    "ray_init": (
        Lever("ray_kwargs.ray_init.num_cpus", "the CPUs that are really granted, not the host's", to=16),
    ),
    "hang_vllm_init": (Lever(_ROLLOUT + "enforce_eager", "no graph capture at start", to=True),),
    "hang_rollout": (Lever(_ROLLOUT + "enforce_eager", "no captured graphs", to=True),),
    "rollout_error": (Lever(_ROLLOUT + "enforce_eager", "no captured graphs", to=True),),
    "reward_zero": (),
    "disk_full": (Lever("trainer.max_actor_ckpt_to_keep", "old checkpoints are deleted", to=1),),
}
_FIRST: Mapping[str, tuple[Lever, ...]] = {
    "kl_drift": (Lever(_ACTOR + "use_kl_loss", "holds the policy to its reference", to=True),),
    "reward_collapse": (Lever(_ACTOR + "use_kl_loss", "holds the policy to its reference", to=True),),
}


def levers(kind: str | None, line: str, values: Mapping[str, Value]) -> list[Move]:
    """What to change, the most promising first; empty where no value of verl's would help.

    Args:
        kind: The failure kind; None gives nothing.
        line: The decisive line: its figures say how far to go.
        values: The run's own configuration, dotted; may be empty or partial.
    """
    if kind is None:
        return []
    exact = line_levers(line, values)
    # The table's lever for a refused combination is about token budgets; the line says what is meant.
    table = () if kind == FailureKind.CONFIG_VALIDATION else LEVERS.get(kind, ())
    if kind == FailureKind.OOM_GPU_LOG_PROB and any(key.startswith(_ROLLOUT) for key in values):
        # The actor's own micro batch stands in the table for spaces that search no other.
        table = tuple(lever for lever in table if not lever.key.startswith(f"{_ACTOR}ppo_"))
    general = [
        move
        for lever in (*_FIRST.get(kind, ()), *table, *_ALSO.get(kind, ()))
        for move in _moves(lever, values)
    ]
    if kind == FailureKind.OOM_GPU_ROLLOUT_INIT:
        general = _growing_engine(exact, general, values)
    return _distinct([*exact, *general])


def _moves(lever: Lever, values: Mapping[str, Value]) -> Iterator[Move]:
    key = _for_strategy(lever.key.lstrip("+"), values)
    if not _applies(key, values):
        return
    before = values.get(key)
    if key not in values:
        if not values or lever.factor is None:
            yield Move(key, None, lever.to, lever.why)
        return
    after = _after(key, before, lever, values)
    if after is not None and after != before:
        yield Move(key, before, after, lever.why)


def _after(key: str, before: Value, lever: Lever, values: Mapping[str, Value]) -> Value:
    if lever.factor is None:
        return lever.to
    if isinstance(before, bool) or not isinstance(before, (int, float)) or not before:
        return None
    if key.endswith("gpu_memory_utilization"):
        step = 0.1 if lever.factor > 1 else -0.1
        return round(min(max(before + step, 0.1), _LARGEST_UTILIZATION), 2)
    if isinstance(before, int):
        after = max(1, int(before * lever.factor))
        if key.endswith("_parallel_size") and after > _gpus(values):
            return None
        return after
    return _rounded(before * lever.factor)


def _applies(key: str, values: Mapping[str, Value]) -> bool:
    """Whether verl reads the key in this configuration, as far as it is known."""
    packs = values.get(_ACTOR + "use_dynamic_bsz")
    if packs is not None:
        if key.endswith("micro_batch_size_per_gpu") and packs and not key.startswith("critic."):
            return False
        if "max_token_len_per_gpu" in key and not packs and not key.startswith("critic."):
            return False
    if key.startswith(_REF):
        reference = (values.get(_ACTOR + "use_kl_loss"), values.get("algorithm.use_kl_in_reward"))
        return not values or any(reference)
    if key == _ACTOR + "kl_loss_coef":
        return values.get(_ACTOR + "use_kl_loss") is not False
    if key == _MODEL + "use_fused_kernels":
        return values.get(_ACTOR + "ulysses_sequence_parallel_size", 1) == 1
    return True


def _for_strategy(key: str, values: Mapping[str, Value]) -> str:
    if values.get(_ACTOR + "strategy") == "megatron":
        key = key.replace("fsdp_config.", "megatron.")
    elif "_parallel" not in key and key.startswith(_ROLLOUT + "checkpoint_engine.") and key not in values:
        # Before verl 0.7.1 the bucket's key stood one section higher.
        old = key.replace("checkpoint_engine.", "")
        return old if old in values else key
    return key


def _growing_engine(exact: list[Move], general: list[Move], values: Mapping[str, Value]) -> list[Move]:
    """An engine that found its share taken must not ask for more."""
    shrinks = any(move.key.endswith("gpu_memory_utilization") for move in exact)
    if shrinks:
        return [move for move in general if not move.key.endswith("gpu_memory_utilization")]
    prompt, response = values.get("data.max_prompt_length"), values.get("data.max_response_length")
    key = _ROLLOUT + "max_model_len"
    if isinstance(prompt, int) and isinstance(response, int) and values.get(key) is None:
        why = "a cache for the lengths of this run, not for the model's longest"
        general.insert(min(2, len(general)), Move(key, None, prompt + response, why))
    return general


def _gpus(values: Mapping[str, Value]) -> int:
    a_node, nodes = values.get("trainer.n_gpus_per_node"), values.get("trainer.nnodes")
    if not isinstance(a_node, int):
        return 1 << 30
    return a_node * (nodes if isinstance(nodes, int) else 1)


def _rounded(value: float) -> float:
    """Two digits that count."""
    return round(value, 1 - floor(log10(abs(value)))) if value else value


def _distinct(moves: Iterable[Move]) -> list[Move]:
    """The first move of each key."""
    first: dict[str, Move] = {}
    for move in moves:
        first.setdefault(move.key, move)
    return list(first.values())
