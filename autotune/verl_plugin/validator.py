"""Asks verl itself: a long-lived child of the controller, in verl's own interpreter.

One JSON object a line on stdin, one back on stdout: `{"call": ..., ...}` is answered by
`{"result": ...}` or `{"error": text}`. The first line, `{"ready": version}`, comes once verl is
imported. What verl and its libraries print goes to stderr.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

_ENOUGH_PROMPTS = 20_000
"""Prompts that are tokenized at least, longest text first; more where too few of them fit."""
_AT_ONCE = 1_000
_QUANTILES = (0.05, 0.5, 0.9, 0.95, 0.99)


def main() -> int:
    """Answer requests until stdin ends; returns the exit code."""
    answers = _protocol_only()
    import verl

    _say(answers, {"ready": str(verl.__version__)})
    for line in sys.stdin:
        request = json.loads(line)
        call = _CALLS[request.pop("call")]
        try:
            _say(answers, {"result": call(**request)})
        except Exception as error:
            traceback.print_exc()
            _say(answers, {"error": one_line(error)})
    return 0


def validate(config_yaml: str) -> list[str]:
    """What verl's own checks say against this configuration, each with the rule's name; empty: nothing."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    config = _as_hydra_gives_it(config_yaml)
    needs_critic = need_critic(config)
    needs_reference = need_reference_policy(config)
    rules: dict[str, Callable[[], object]] = {
        "verl.utils.config.validate_config": lambda: validate_config(config, needs_reference, needs_critic),
        "actor_rollout_ref.actor": lambda: _build(config.actor_rollout_ref.actor),
        "actor_rollout_ref.rollout": lambda: _build(config.actor_rollout_ref.rollout),
        "algorithm": lambda: _build(config.algorithm),
    }
    if needs_reference:
        rules["actor_rollout_ref.ref"] = lambda: _build(_as_the_worker_has_it(config.actor_rollout_ref))
    if needs_critic:
        rules["critic"] = lambda: _build_critic(config.critic)
    complaints: list[str] = []
    seen: set[str] = set()
    for rule, check in rules.items():
        try:
            check()
        except Exception as error:
            text = one_line(error)
            if text not in seen:
                seen.add(text)
                complaints.append(f"{rule}: {text}")
    return complaints


def longest_prompts(config_yaml: str, rows: int, target: str) -> int:
    """Write the `rows` longest prompts that still fit to the parquet file `target`.

    The rows keep their schema and are repeated where there are fewer. Returns the tokens of the
    longest one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from omegaconf import OmegaConf

    config = OmegaConf.create(config_yaml)
    data, model = config.data, config.actor_rollout_ref.model
    files = [data.train_files] if isinstance(data.train_files, str) else list(data.train_files)
    tables = [pq.read_table(os.path.expanduser(path)) for path in files]
    table = pa.concat_tables(tables, promote_options="default").replace_schema_metadata(
        tables[0].schema.metadata
    )
    prompts = table.column(data.get("prompt_key", "prompt")).to_pylist()
    count_tokens = _token_counter(model, _plain(data.get("apply_chat_template_kwargs")))
    limit = int(data.max_prompt_length)
    fitting = sorted(_fitting(prompts, count_tokens, limit, rows), reverse=True)[:rows]
    if not fitting:
        raise ValueError(f"no prompt of {', '.join(files)} has at most data.max_prompt_length={limit} tokens")
    chosen = [fitting[position % len(fitting)][1] for position in range(rows)]
    pq.write_table(table.take(chosen), target)
    return fitting[0][0]


def prompt_lengths(config_yaml: str, rows: int) -> dict[str, Any]:
    """Tokens of the prompts of data.train_files, of at most `rows` of them, evenly spaced.

    Returns `rows` (all there are), `counted`, `mean`, `quantiles` ("0.5", "0.9"... to tokens), `longest`,
    `over_limit_frac` (longer than data.max_prompt_length) and `masks_fit` (ids and mask of equal length).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from omegaconf import OmegaConf

    config = OmegaConf.create(config_yaml)
    data, model = config.data, config.actor_rollout_ref.model
    files = [data.train_files] if isinstance(data.train_files, str) else list(data.train_files)
    column = data.get("prompt_key", "prompt")
    tables = [pq.read_table(os.path.expanduser(path), columns=[column]) for path in files]
    table = pa.concat_tables(tables, promote_options="default")
    step = max(-(-table.num_rows // rows), 1)
    prompts = table.column(column).take(list(range(0, table.num_rows, step))).to_pylist()
    if not prompts:
        raise ValueError(f"no rows in {', '.join(files)}")
    encode = _encoder(model, _plain(data.get("apply_chat_template_kwargs")))
    pairs = [
        pair
        for start in range(0, len(prompts), _AT_ONCE)
        for pair in encode(prompts[start : start + _AT_ONCE])
    ]
    lengths = sorted(len(ids) for ids, _ in pairs)
    limit = int(data.max_prompt_length)
    return {
        "rows": table.num_rows,
        "counted": len(lengths),
        "mean": sum(lengths) / len(lengths),
        "quantiles": {
            str(part): lengths[min(int(part * len(lengths)), len(lengths) - 1)] for part in _QUANTILES
        },
        "longest": lengths[-1],
        "over_limit_frac": sum(length > limit for length in lengths) / len(lengths),
        "masks_fit": all(len(ids) == len(mask) for ids, mask in pairs),
    }


def one_line(error: BaseException) -> str:
    """The innermost reason of an error, or else its source line, without Hydra's wrapping."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = " ".join(str(cause).split())
    if not text:
        frames = traceback.extract_tb(cause.__traceback__)
        text = (frames[-1].line if frames else None) or "no message"
    return f"{type(cause).__name__}: {text}"


def _as_hydra_gives_it(config_yaml: str) -> Any:
    from omegaconf import OmegaConf

    config = OmegaConf.create(config_yaml)
    OmegaConf.set_struct(config, True)
    return config


def _build(section: Any) -> object:
    from verl.utils.config import omega_conf_to_dataclass

    return omega_conf_to_dataclass(section)


def _as_the_worker_has_it(section: Any) -> Any:
    """The ref section with the names that verl's worker gives it (engine_workers.py:545-552)."""
    from omegaconf import OmegaConf, open_dict

    ref: Any = OmegaConf.create(OmegaConf.to_container(section.ref))
    with open_dict(ref):
        ref.ppo_mini_batch_size = section.actor.ppo_mini_batch_size
        ref.ppo_micro_batch_size = ref.pop("log_prob_micro_batch_size", None)
        ref.ppo_micro_batch_size_per_gpu = ref.pop("log_prob_micro_batch_size_per_gpu", None)
        ref.use_dynamic_bsz = ref.pop("log_prob_use_dynamic_bsz", False)
        ref.ppo_max_token_len_per_gpu = ref.pop("log_prob_max_token_len_per_gpu", None)
    return ref


def _build_critic(section: Any) -> object:
    """The critic without its model, whose dataclass would read the model from disk or the network."""
    from omegaconf import OmegaConf

    without_model: Any = OmegaConf.create(OmegaConf.to_container(section))
    without_model.model = None
    return _build(without_model)


def _plain(section: Any) -> dict[str, Any]:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(section) if section else {}  # type: ignore[return-value]


def _token_counter(model: Any, template_arguments: Any) -> Callable[[list[Any]], list[int]]:
    encode = _encoder(model, template_arguments)
    return lambda prompts: [len(ids) for ids, _ in encode(prompts)]


def _encoder(model: Any, template_arguments: Any) -> Callable[[list[Any]], list[tuple[list[int], list[int]]]]:
    """Prompts to (ids, attention mask), by the model's tokenizer and chat template."""
    from transformers import AutoTokenizer

    path = os.path.expanduser(model.get("tokenizer_path") or model.path)
    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=bool(model.get("trust_remote_code")))
    if model.get("custom_chat_template"):
        tokenizer.chat_template = model.custom_chat_template

    def encode(prompts: list[Any]) -> list[tuple[list[int], list[int]]]:
        texts = [
            tokenizer.apply_chat_template(
                prompt, add_generation_prompt=True, tokenize=False, **template_arguments
            )
            for prompt in prompts
        ]
        encoded = tokenizer(texts, add_special_tokens=False)
        return list(zip(encoded["input_ids"], encoded["attention_mask"], strict=True))

    return encode


def _fitting(
    prompts: list[Any], count_tokens: Callable[[list[Any]], list[int]], limit: int, wanted: int
) -> Iterator[tuple[int, int]]:
    """(tokens, row) of prompts within `limit`, looked for from the longest text downwards."""
    by_length = sorted(range(len(prompts)), key=lambda row: -_characters(prompts[row]))
    found = 0
    for start in range(0, len(by_length), _AT_ONCE):
        if start >= _ENOUGH_PROMPTS and found >= wanted:
            return
        rows = by_length[start : start + _AT_ONCE]
        for tokens, row in zip(count_tokens([prompts[row] for row in rows]), rows, strict=True):
            if tokens <= limit:
                found += 1
                yield tokens, row


def _characters(prompt: Any) -> int:
    if isinstance(prompt, str):
        return len(prompt)
    messages: Iterable[Any] = prompt or ()
    return sum(len(str(message.get("content", ""))) for message in messages)


def _protocol_only() -> TextIO:
    """Keep the real stdout for answers; whatever else writes to file descriptor 1 reaches stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def missing_loggers(names: Sequence[str]) -> dict[str, str]:
    """Why this verl cannot log to a backend, by its name, which is its package's; empty: it can to all."""
    from verl.utils.tracking import Tracking

    missing = {}
    for name in names:
        if name not in Tracking.supported_backend:
            missing[name] = "this verl has no such logger"
        elif not is_installed(name):
            missing[name] = f"the package {name} is not installed in verl's environment"
    return missing


def is_installed(package: str) -> bool:
    """False for a mere folder of that name, such as W&B and MLflow leave in a working directory."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


_CALLS: dict[str, Callable[..., Any]] = {
    "validate": validate,
    "missing_loggers": missing_loggers,
    "longest_prompts": longest_prompts,
    "prompt_lengths": prompt_lengths,
}


if __name__ == "__main__":
    sys.exit(main())
