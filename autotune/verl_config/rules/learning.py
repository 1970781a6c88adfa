"""Learning settings that do nothing, or something else than they seem to."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.verl_config.rules.rule import Fix, Hit, Rule, Setting, Severity, shown
from autotune.verl_config.training_shape import ACTOR, ROLLOUT

_KL_COEF = "algorithm.kl_ctrl.kl_coef"
_KL_TYPE = "algorithm.kl_ctrl.type"
_IN_REWARD = "algorithm.use_kl_in_reward"
_KL_LOSS = f"{ACTOR}.use_kl_loss"
_LOSS_COEF = f"{ACTOR}.kl_loss_coef"


def _changed(setting: Setting, key: str) -> bool:
    return setting.gives(key) and setting.given[key] != setting.schema.resolved_defaults.get(key)


def _reward_kl(setting: Setting) -> Iterable[Hit]:
    if setting.flat.get(_IN_REWARD):
        return
    live = f"{_LOSS_COEF} is the live one" if setting.flat.get(_KL_LOSS) else f"turn on {_KL_LOSS}"
    for key in (_KL_COEF, _KL_TYPE, "algorithm.kl_ctrl.target_kl", "algorithm.kl_ctrl.horizon"):
        # An explicit 0 says what happens: nothing.
        if not _changed(setting, key) or not setting.given[key]:
            continue
        fix = None
        if key == _KL_COEF:
            loss = {} if setting.gives(_LOSS_COEF) else {_LOSS_COEF: setting.given[key]}
            fix = Fix(set={_KL_LOSS: True, **loss}, remove=(key,))
        yield Hit(
            key=key,
            found=shown(setting.given[key]),
            message=f"no effect while {_IN_REWARD} is false; {live}",
            fix=fix,
        )


def _loss_kl(setting: Setting) -> Iterable[Hit]:
    if setting.flat.get(_KL_LOSS) or not _changed(setting, _LOSS_COEF) or not setting.given[_LOSS_COEF]:
        return
    yield Hit(
        key=_LOSS_COEF,
        found=shown(setting.given[_LOSS_COEF]),
        message=f"no effect while {_KL_LOSS} is false",
        fix=Fix(set={_KL_LOSS: True}),
    )


def _kl_twice(setting: Setting) -> Iterable[Hit]:
    if setting.flat.get(_KL_LOSS) and setting.flat.get(_IN_REWARD) and setting.shape.number(_LOSS_COEF):
        yield Hit(
            key=_IN_REWARD, found="true", message=f"KL counts twice: {_KL_LOSS} puts it into the loss as well"
        )


def _lambda(setting: Setting) -> Iterable[Hit]:
    estimator = setting.flat.get("algorithm.adv_estimator")
    if estimator != "gae" and _changed(setting, "algorithm.lam"):
        yield Hit(
            key="algorithm.lam",
            found=shown(setting.given["algorithm.lam"]),
            message=f"no effect: only gae reads it, adv_estimator is {shown(estimator)}",
            fix=Fix(remove=("algorithm.lam",)),
        )


def _one_sample(setting: Setting) -> Iterable[Hit]:
    """Verl takes the raw reward as advantage of a group of one (core_algos.py: id2mean is 0)."""
    estimator, repeats = setting.flat.get("algorithm.adv_estimator"), setting.shape.count(f"{ROLLOUT}.n")
    if estimator in ("grpo", "rloo", "grpo_passk", "gpg", "opo") and repeats == 1:
        yield Hit(
            key=f"{ROLLOUT}.n",
            found="1",
            message=f"{shown(estimator)} compares the responses to a prompt; of one it takes the raw reward",
            fix=Fix(set={f"{ROLLOUT}.n": 5}),
        )


def _clip_order(setting: Setting) -> Iterable[Hit]:
    low = setting.shape.number(f"{ACTOR}.clip_ratio_low")
    if (
        low is not None
        and low >= 1
        and setting.flat.get(f"{ACTOR}.policy_loss.loss_mode") in (None, "vanilla")
    ):
        yield Hit(
            key=f"{ACTOR}.clip_ratio_low",
            found=shown(low),
            message=f"clips nothing below: ratios are over 0, the lower bound is 1 - {shown(low)}",
        )


def _entropy(setting: Setting) -> Iterable[Hit]:
    key = f"{ACTOR}.entropy_coeff"
    if _changed(setting, key) and setting.shape.number(key):
        yield Hit(
            key=key,
            found=shown(setting.given[key]),
            message="puts the entropy into the training graph: more memory, and it may explode",
        )


def _padding_batch(setting: Setting) -> Iterable[Hit]:
    batch, mini = (
        setting.shape.count("data.train_batch_size"),
        setting.shape.count(f"{ACTOR}.ppo_mini_batch_size"),
    )
    if setting.is_v1 and batch and mini and batch % mini:
        yield Hit(
            key=f"{ACTOR}.ppo_mini_batch_size",
            found=f"{mini} with data.train_batch_size {batch}",
            message="verl fills the batch up with synthetic samples: wasted work",
        )


LEARNING_RULES = (
    Rule(
        "kl_in_reward_off",
        Severity.WARNING,
        "Used with algorithm.use_kl_in_reward alone (trainer_base.py:1755); GRPO's live knob is kl_loss_coef",
        _reward_kl,
    ),
    Rule("kl_loss_off", Severity.WARNING, "Read with use_kl_loss alone (workers/utils/losses.py)", _loss_kl),
    Rule("kl_twice", Severity.NOTE, "Reward and loss both carry the penalty", _kl_twice),
    Rule("lambda_without_gae", Severity.NOTE, "Only GAE has a lambda", _lambda),
    Rule("group_of_one", Severity.NOTE, "A group of one has no baseline: noisy learning", _one_sample),
    Rule("clip_range", Severity.WARNING, "The surrogate is clipped to 1 - low .. 1 + high", _clip_order),
    Rule("entropy_bonus", Severity.NOTE, "trainer_base.py:1831", _entropy),
    Rule("batch_padded", Severity.NOTE, "trainer_base.py:1589-1621", _padding_batch),
)
