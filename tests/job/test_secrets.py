"""Which variables are secrets, and that no dump of a job holds one."""

import pytest

from autotune.job.model import Job, VerlSection
from autotune.job.secrets import WITHHELD, is_secret, secrets_of, withheld, without_secrets

SPACE = {"name": "s", "parameters": {"x": {"kind": "categorical", "choices": [1]}}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WANDB_API_KEY", "k"),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("HF_TOKEN", "k"),
        ("apikey", "k"),
        ("DBPASSWORD", "k"),
        ("SLACK_WEBHOOK", "k"),
        ("MLFLOW_TRACKING_PASSWORD", "k"),
        ("MLFLOW_TRACKING_URI", "https://me:word@mlflow.example.org"),
        ("ANYTHING", WITHHELD),
    ],
)
def test_keys_tokens_passwords_and_urls_that_carry_them_are_secrets(name, value):
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("VLLM_MAX_TOKENS", "8"),
        ("MLFLOW_TRACKING_URI", "http://mlflow.example.org:5000/a@b"),
        ("NCCL_DEBUG", "INFO"),
        ("KEYBOARD", "de"),
        ("CUDA_BYPASS", "1"),
    ],
)
def test_other_variables_are_not(name, value):
    assert not is_secret(name, value)


def test_an_environment_falls_into_two_parts_or_keeps_its_names():
    given = {"A": "1", "HF_TOKEN": "t"}
    assert without_secrets(given) == {"A": "1"}
    assert secrets_of(given) == {"HF_TOKEN": "t"}
    assert withheld(given) == {"A": "1", "HF_TOKEN": WITHHELD}


def test_a_dump_of_a_job_holds_none_and_can_be_read_again():
    job = Job.model_validate(
        {
            "name": "j",
            "verl": {"overrides": {}, "environment": {"A": "1", "WANDB_API_KEY": "k-1"}},
            "stages": {"survive": {"search_space": SPACE, "steps": 3, "trials": 1}},
            "notify": {"webhook": "https://hooks.example.org/s-2", "command": ["post", "s-3"]},
        }
    )
    assert (job.verl.environment["WANDB_API_KEY"], job.notify.webhook.get_secret_value()[-3:]) == (
        "k-1",
        "s-2",
    )
    text = job.model_dump_json()
    assert not any(secret in text + repr(job.notify.webhook) for secret in ("k-1", "s-2", "s-3"))
    again = Job.model_validate_json(text)
    assert again.verl == VerlSection(overrides={}, environment={"A": "1", "WANDB_API_KEY": WITHHELD})
    assert (again.notify.webhook, again.notify.command) == (None, None)
