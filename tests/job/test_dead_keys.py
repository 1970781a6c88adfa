"""Dead keys are told with what is live instead."""

import pytest

from autotune.job.dead_keys import DEAD_KEYS, DEAD_SECTIONS, why_dead
from autotune.job.model import VerlSection
from autotune.verl_config.compose import compose


@pytest.mark.parametrize(
    "key",
    [
        "actor_rollout_ref.actor.grad_clip",
        "+actor_rollout_ref.actor.clip_ratio",
        "actor_rollout_ref.rollout.agent.custom_async_server.path",
        "reward_model.model.path",
        "custom_reward_function.reward_kwargs.x",
    ],
)
def test_dead(key):
    assert why_dead(key)


@pytest.mark.parametrize(
    "key",
    [
        "actor_rollout_ref.actor.optim.clip_grad",
        "actor_rollout_ref.actor.clip_ratio_low",
        "reward.reward_model.model_path",
        "reward.custom_reward_function.path",
        "actor_rollout_ref.ref.megatron.param_offload",
    ],
)
def test_live(key):
    assert why_dead(key) is None


def test_every_dead_key_still_stands_in_verls_configuration():
    config = compose(VerlSection(overrides={}), {})
    known = set(config.default_flat)
    absent = [
        key
        for key in (*DEAD_KEYS, *DEAD_SECTIONS)
        if key not in known and not any(name.startswith(f"{key}.") for name in known)
    ]
    assert absent in ([], ["actor_rollout_ref.rollout.checkpoint_manager_class"])
