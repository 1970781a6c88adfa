"""Extensions are verl's own keys: in a trial, in a search space, in an export."""

import pytest
from pydantic import ValidationError

from autotune.job.model import ExtensionSection, SpeedStage, SurviveStage
from autotune.job.space import SearchSpace
from autotune.verl_config.extensions import (
    ADAPTIVE_CLIPPING,
    LENGTH_BUCKETS,
    WORKERS,
    extension_overrides,
    extensions_in,
    with_extensions,
)
from autotune.verl_config.rendering import hydra_overrides

SPACE = SearchSpace.model_validate(
    {"name": "s", "parameters": {"x": {"kind": "categorical", "choices": [1]}}}
)
SPEED = SpeedStage(search_space=SPACE, steps=6, trials=3)


def section(**switches):
    return ExtensionSection.model_validate(switches)


def test_nothing_is_on_by_default():
    assert extension_overrides(section()) == {}
    assert with_extensions(SPEED, section()) is SPACE


@pytest.mark.parametrize(
    ("switches", "names"),
    [
        ({"length_bucketing": True}, ("length bucketing",)),
        ({"adaptive_clipping": 0.01}, ("adaptive gradient clipping 0.01",)),
        ({"token_check": True}, ("token check",)),
        # Searched, it is the space that sets it; watching the input changes nothing in verl.
        ({"length_bucketing": "search", "input_pipeline": True}, ()),
    ],
)
def test_a_switch_is_an_environment_variable_that_verl_hands_on(switches, names):
    overrides = extension_overrides(section(**switches))
    assert all(key.startswith("+ray_kwargs.ray_init.runtime_env.env_vars.AUTOTUNE_") for key in overrides)
    assert extensions_in({key.lstrip("+"): value for key, value in overrides.items()}) == names


def test_ray_takes_texts_only_so_numbers_stay_texts_on_a_command_line():
    (argument,) = hydra_overrides(extension_overrides(section(adaptive_clipping=0.01)))
    assert argument == f"+{ADAPTIVE_CLIPPING}='0.01'"


def test_only_stage_speed_searches_and_only_what_is_asked_for():
    asked = section(length_bucketing="search", input_pipeline="search")
    assert list(with_extensions(SPEED, asked).parameters) == ["x", LENGTH_BUCKETS, WORKERS]
    survive = SurviveStage(search_space=SPACE, steps=3, trials=1)
    assert with_extensions(survive, asked) is SPACE
    assert list(with_extensions(SPEED, section(length_bucketing=True)).parameters) == ["x"]


def test_a_space_that_searches_the_workers_itself_keeps_its_own():
    own = {"name": "s", "parameters": {WORKERS: {"kind": "categorical", "choices": [1, 3]}}}
    speed = SPEED.model_copy(update={"search_space": SearchSpace.model_validate(own)})
    found = with_extensions(speed, section(input_pipeline="search"))
    assert found.parameters[WORKERS].choices == [1, 3]


@pytest.mark.parametrize("switches", [{"adaptive_clipping": 0.0}, {"length_bucketing": "yes"}, {"bucket": 1}])
def test_what_is_no_switch_is_refused(switches):
    with pytest.raises(ValidationError):
        section(**switches)
