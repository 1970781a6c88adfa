"""What a dry run can say before anything has run."""

from autotune.ladder.plan import first_candidates
from autotune.records import StageName
from autotune.search.moves import completed, safest_point
from tests.ladder.builders import (
    FASTEST,
    SURVIVOR,
    quality_section,
    quality_space,
    speed_section,
    speed_space,
    survive_section,
)
from tests.search.builders import memory_space


def planned(stage, section, where, **more):
    return [candidate.params for candidate in first_candidates(stage, section, where, **more)]


def test_survive_knows_the_users_configuration_and_the_safest():
    where = memory_space()
    expected = [completed(where, {}), safest_point(where)]
    assert planned(StageName.SURVIVE, survive_section(), where) == expected
    assert planned(StageName.SURVIVE, survive_section(trials=1), where) == expected[:1]


def test_speed_knows_the_repeats_and_the_single_changes():
    changes = [{"micro": 4}, {"micro": 1}, {"dynamic": True}, {"share": 0.6}, {"share": 0.4}]
    expected = [SURVIVOR, SURVIVOR, *({**SURVIVOR, **change} for change in changes)]
    assert planned(StageName.SPEED, speed_section(), speed_space()) == expected
    assert planned(StageName.SPEED, speed_section(), speed_space(), limit=3) == expected[:3]
    assert planned(StageName.SPEED, speed_section(trials=4), speed_space()) == expected[:4]


def test_quality_knows_its_baseline():
    assert planned(StageName.QUALITY, quality_section(), quality_space()) == [FASTEST]
