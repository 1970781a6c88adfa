"""What is rendered is what Hydra's own parser reads."""

import shlex

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from autotune.verl_config.rendering import hydra_overrides, hydra_value, nested_yaml, shell_overrides

PARSER = OverridesParser.create()

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)),
    st.sampled_from(
        ["null", "True", "1e-6", ".5", "a b", "it's", "tail\\", "\\'", "a,b", "{x}", "x=1", "inf"]
    ),
)
names = (
    st.from_regex(r"[a-z_][a-z0-9_:. -]{0,8}", fullmatch=True)
    .map(str.strip)
    .filter(lambda name: name not in {"null", "true", "false", "nan", "inf", "on", "off"})
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)


@given(values)
def test_hydra_reads_back_the_same_value(value):
    parsed = PARSER.parse_override(f"key={hydra_value(value)}")
    assert parsed.value() == value
    assert type(parsed.value()) is type(value)


def test_overrides_survive_a_shell():
    overrides = {
        "trainer.logger": ["console", "file"],
        "actor_rollout_ref.actor.optim.lr": 1e-6,
        "data.seed": None,
        "actor_rollout_ref.actor.use_kl_loss": True,
        "trainer.experiment_name": "it's $HOME `x`",
        "+data.filter": {"by": "length", "limits": [1, 2]},
    }
    words = shlex.split(" ".join(shell_overrides(overrides)))
    parsed = PARSER.parse_overrides(words)
    assert words == hydra_overrides(overrides)
    assert [override.value() for override in parsed] == list(overrides.values())


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("data.seed", "data.seed"),
        ("+data.own", "++data.own"),
        ("actor_rollout_ref.model.override_config.attn", "++actor_rollout_ref.model.override_config.attn"),
        (
            "actor_rollout_ref.rollout.engine_kwargs.vllm.x",
            "++actor_rollout_ref.rollout.engine_kwargs.vllm.x",
        ),
    ],
)
def test_keys_that_verl_may_lack_are_added_or_changed(key, written):
    assert hydra_overrides({key: 1}) == [f"{written}=1"]


def test_nested_yaml_joins_sections_and_drops_the_plus():
    text = nested_yaml({"data.seed": 1, "+data.own": "1e-6", "trainer.logger": ["console"]})
    assert yaml.safe_load(text) == {"data": {"seed": 1, "own": "1e-6"}, "trainer": {"logger": ["console"]}}
    assert yaml.safe_load(nested_yaml({})) == {}
