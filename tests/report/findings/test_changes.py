"""The exported configuration against the user's own."""

from autotune.records import StageName
from autotune.report.report_data import read_report
from tests.report.study import LR, MICRO_BATCH, OWN, SEQUENCES, StudyBuilder, study_job


def test_every_change_names_the_stage_that_made_it(studied):
    finding = studied.changes
    assert (finding.stage, finding.trial) == (StageName.QUALITY, 1)
    found = {change.key: (change.own, change.exported, change.stage) for change in finding.changes}
    assert found == {
        MICRO_BATCH: (64, 16, StageName.SPEED),
        SEQUENCES: (16, 64, StageName.SPEED),
        LR: (1e-6, 3e-6, StageName.QUALITY),
    }
    assert finding.unchanged == ()


def test_the_users_own_configuration_changes_nothing(store, clock, tmp_path):
    study = StudyBuilder(store, clock)
    study.complete(StageName.SURVIVE, 0, OWN, "user configuration", accepted=True)
    study.end(StageName.SURVIVE, 0, met=True, accepted=(0,))
    finding = read_report(store, study_job(tmp_path), clock.utc_now()).changes
    assert (finding.changes, finding.unchanged) == ((), (MICRO_BATCH,))


def test_a_key_that_nobody_named_before_has_no_known_value(store, clock, tmp_path):
    study = StudyBuilder(store, clock)
    study.complete(StageName.SURVIVE, 0, OWN, "user configuration")
    study.complete(StageName.SURVIVE, 1, {**OWN, "actor_rollout_ref.actor.other": 2}, "sampler")
    study.end(StageName.SURVIVE, 1, met=True, accepted=(1,))
    (change,) = read_report(store, study_job(tmp_path), clock.utc_now()).changes.changes
    assert (change.key, change.own_is_known) == ("actor_rollout_ref.actor.other", False)
