"""Where a job's local inputs are: names become absolute where they exist, all else is verl's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

_OUTER = re.compile(r"\$(\{)?(?P<name>HOME|PWD|USER)(?(1)\}|(?!\w))")
LOCAL_INPUTS = frozenset(
    {
        "data.train_files",
        "data.val_files",
        "data.custom_cls.path",
        "actor_rollout_ref.model.path",
        "actor_rollout_ref.model.tokenizer_path",
        "actor_rollout_ref.model.hf_config_path",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path",
        "critic.model.path",
        "critic.model.tokenizer_path",
        "reward.custom_reward_function.path",
        "reward.reward_manager.module.path",
        "reward.reward_model.model_path",
    }
)
"""verl's keys whose values name files or folders that exist before the run."""


def with_outer_variables(value: JsonValue) -> JsonValue:
    """`$HOME`, `$PWD` and `$USER` replaced in every text, so that a job is good for other users too."""
    if isinstance(value, str) and "$" in value:
        return _OUTER.sub(lambda match: _outer(match["name"]) or match[0], value)
    if isinstance(value, list):
        return [with_outer_variables(item) for item in value]
    if isinstance(value, dict):
        return {key: with_outer_variables(item) for key, item in value.items()}
    return value


def _outer(name: str) -> str:
    if name == "PWD":
        return str(Path.cwd())
    return os.environ.get(name, "")


def with_absolute_inputs(overrides: Mapping[str, JsonValue], job_folder: Path) -> dict[str, JsonValue]:
    """The overrides with every local input that can be found made absolute."""
    return {
        key: _absolute(value, job_folder) if key.lstrip("+") in LOCAL_INPUTS else value
        for key, value in overrides.items()
    }


def absolute_if_found(text: str, job_folder: Path) -> str:
    """`text` as an absolute path where it exists under the working directory or else beside the job file.

    verl itself looks from its working directory, which is another one in a trial. URLs, interpolations
    and what is found nowhere (a model's hub id, a file yet to come) are returned as they are.
    """
    if not text or "://" in text or "${" in text:
        return text
    path = Path(text)
    if text.startswith("~"):
        try:
            return str(path.expanduser())
        except RuntimeError:
            return text
    if path.is_absolute():
        return text
    found = next((folder / path for folder in (Path.cwd(), job_folder) if (folder / path).exists()), None)
    return text if found is None else str(found.absolute())


def _absolute(value: JsonValue, job_folder: Path) -> JsonValue:
    if isinstance(value, str):
        return absolute_if_found(value, job_folder)
    if isinstance(value, list):
        return [_absolute(item, job_folder) for item in value]
    return value
