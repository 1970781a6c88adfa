from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

FLAT = {
    "data.max_prompt_length": 64,
    "data.max_response_length": 16,
    "data.train_batch_size": 8,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 4,
    "actor_rollout_ref.rollout.n": 8,
    "actor_rollout_ref.actor.use_dynamic_bsz": False,
    "actor_rollout_ref.actor.use_kl_loss": True,
    "algorithm.adv_estimator": "grpo",
}


@pytest.fixture
def flat() -> dict:
    """The part of a resolved verl configuration that facts are made of."""
    return dict(FLAT)


@pytest.fixture
def job_dict() -> dict:
    """A small valid job."""
    return {
        "name": "small",
        "verl": {"overrides": {"data.train_batch_size": 8, "actor_rollout_ref.model.path": "Qwen/Qwen2-7B"}},
        "stages": {
            "survive": {
                "search_space": {
                    "parameters": {
                        "actor_rollout_ref.rollout.max_num_seqs": {"kind": "categorical", "choices": [4, 8]}
                    }
                },
                "steps": 3,
                "trials": 2,
            }
        },
    }


@pytest.fixture
def write_job(tmp_path: Path) -> Callable[[dict], Path]:
    """Writes a job (a mapping, or YAML text) to a file."""

    def write(job: dict | str, name: str = "job.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(job if isinstance(job, str) else yaml.safe_dump(job, sort_keys=False))
        return path

    return write
