"""Fixes in the user's own file: the values change, everything else stays."""

import pytest

from autotune.job.yaml_source import parse_yaml
from autotune.verl_config.mending import mended
from autotune.verl_config.rules.rule import Finding, Fix, Severity

JOB = """\
# my job
verl:
  overrides:
    data.train_batch_size: 64   # prompts
    "data.quoted": 1
    +data.added: [1, 2]
    data.long:
      - a
      - b

    # a remark
    trainer.nnodes: 1
name: mine
"""
NESTED = """\
data:
  train_batch_size: 64  # prompts
actor_rollout_ref:
  actor:
    optim:
      lr: 1e-6
    grad_clip: 0.1
trainer: {nnodes: 1}
"""
PREFIX = ("verl", "overrides")


def mend(text, to_set=None, remove=(), prefix=PREFIX):
    finding = Finding(
        rule="r",
        severity=Severity.ERROR,
        key="k",
        found="",
        message="",
        fix=Fix(set=to_set or {}, remove=remove),
    )
    return mended(parse_yaml(text, "file", "job file"), text, prefix, [finding])


@pytest.mark.parametrize(
    ("to_set", "remove", "old", "new"),
    [
        (
            {"data.train_batch_size": 32},
            (),
            "data.train_batch_size: 64   # prompts",
            "data.train_batch_size: 32   # prompts",
        ),
        ({"data.quoted": None}, (), '"data.quoted": 1', '"data.quoted": null'),
        ({"data.added": True}, (), "+data.added: [1, 2]", "+data.added: true"),
        ({"trainer.nnodes": "a: b"}, (), "trainer.nnodes: 1", "trainer.nnodes: 'a: b'"),
        ({"new.key": 0.1}, (), "    trainer.nnodes: 1\n", "    trainer.nnodes: 1\n    new.key: 0.1\n"),
        ({}, ("data.train_batch_size",), "    data.train_batch_size: 64   # prompts\n", ""),
        ({}, ("data.added",), "    +data.added: [1, 2]\n", ""),
        ({}, ("data.long",), "    data.long:\n      - a\n      - b\n", ""),
    ],
)
def test_a_job_file_changes_in_one_place(to_set, remove, old, new):
    result = mend(JOB, to_set, remove)
    assert result.text == JOB.replace(old, new)
    assert (result.done, result.left) == (("r",), ())


@pytest.mark.parametrize(
    ("to_set", "remove", "old", "new"),
    [
        ({"data.train_batch_size": 32}, (), "train_batch_size: 64  #", "train_batch_size: 32  #"),
        (
            {"actor_rollout_ref.actor.optim.clip_grad": 0.1},
            ("actor_rollout_ref.actor.grad_clip",),
            "      lr: 1e-6\n    grad_clip: 0.1\n",
            "      lr: 1e-6\n      clip_grad: 0.1\n",
        ),
        (
            {"actor_rollout_ref.model.lora_rank": 8},
            (),
            "    grad_clip: 0.1\n",
            "    grad_clip: 0.1\n  model: {lora_rank: 8}\n",
        ),
    ],
)
def test_a_nested_yaml_changes_in_one_place(to_set, remove, old, new):
    result = mend(NESTED, to_set, remove, prefix=())
    assert result.text == NESTED.replace(old, new)


@pytest.mark.parametrize(
    ("text", "prefix", "to_set"),
    [(NESTED, (), {"trainer.nnodes": 2}), (JOB, PREFIX, {"data.long": [1]})],
)
def test_what_no_single_line_holds_is_left_and_named(text, prefix, to_set):
    result = mend(text, to_set, prefix=prefix)
    assert (result.text, result.done, result.left) == (text, (), ("k",))
