import pytest

from autotune.judge import phases
from autotune.judge.kinds import KINDS, FailureKind, facts, hang_kind, oom_kind
from autotune.judge.patterns import SIGNS
from autotune.records import FailureGroup


def test_every_kind_has_its_facts():
    assert set(KINDS) == {kind.value for kind in FailureKind}


def test_only_the_candidates_own_failures_teach_and_none_of_them_is_retried():
    for name, kind in KINDS.items():
        assert kind.teaches == (kind.group is FailureGroup.CANDIDATE), name
        if kind.group is not FailureGroup.INFRASTRUCTURE:
            assert kind.retries == 0, name


@pytest.mark.parametrize(
    ("kind", "retries"),
    [
        ("port_conflict", 2),
        ("leftover_processes", 1),
        ("ray_init", 1),
        ("ray_actor_death", 1),
        ("cuda_fault", 1),
    ],
)
def test_retry_limits(kind, retries):
    assert KINDS[kind].retries == retries


def test_sentences_take_a_phase_and_nothing_else():
    for kind in KINDS.values():
        assert "{" not in kind.sentence.format(phase="rollout")


def test_every_phase_has_an_oom_and_a_hang_kind():
    for phase in phases.PHASES:
        assert oom_kind(phase) in KINDS
        assert hang_kind(phase).startswith("hang_")
    assert oom_kind("") == "oom_unattributed"


def test_every_sign_means_a_kind_on_a_level_of_the_taxonomy():
    for sign in SIGNS:
        assert sign.kind in KINDS
        assert 1 <= sign.level <= 10
        assert sign.phase in ("", *phases.PHASES)


def test_an_unheard_of_kind_is_treated_as_unknown():
    assert facts("from_a_newer_version") == KINDS["unknown"]
