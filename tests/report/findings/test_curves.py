"""Curves: named trials in full, the others thinned, never all of them."""

import pytest

from autotune.records import StageName
from autotune.report.findings.curves import MOST_OTHERS, thinned
from autotune.report.report_data import read_report
from tests.report.study import LR, StudyBuilder, fill_study, study_job


def test_the_quality_stages_baseline_and_best_with_the_band(studied):
    finding = studied.curves
    assert finding.stage is StageName.QUALITY
    assert [(one.name, one.trial) for one in finding.named] == [
        ("fastest", "quality/0"),
        ("best", "quality/1"),
    ]
    assert finding.kl_band == (0.05, 0.12)
    assert finding.named[1].steps == tuple(range(1, 61))
    assert finding.named[1].kl[-1] == pytest.approx(0.08)
    assert len(finding.others) == 5
    assert finding.left_out == 0


def test_a_large_study_brings_only_some_curves(store, clock, tmp_path):
    job = study_job(tmp_path)
    fill_study(store, clock, job, sampled=0, steps=4)
    study = StudyBuilder(store, clock)
    for number in range(3, 63):
        study.complete(StageName.QUALITY, number, {LR: 1e-6 * number}, "sampler", steps=2)
    finding = read_report(store, job, clock.utc_now()).curves
    assert len(finding.others) == MOST_OTHERS
    assert finding.left_out == 61 - MOST_OTHERS


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, 1000])
def test_thinning_keeps_both_ends(count):
    kept = thinned(range(count), 6)
    assert len(kept) == min(count, 6)
    assert kept[:1] + kept[-1:] == list(range(count))[:1] + list(range(count))[-1:]
    assert kept == sorted(set(kept))


def test_fewer_than_both_ends_is_a_mistake():
    with pytest.raises(ValueError, match="1"):
        thinned([1, 2, 3], 1)
