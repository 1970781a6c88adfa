from dataclasses import replace

import pytest

from autotune.forecast.correction import Correction, MeasuredPeak
from autotune.forecast.lengths import Lengths
from autotune.forecast.memory import PhasePeak, forecast
from autotune.forecast.rejection import AuditRecord, is_audited, judge
from tests.forecast.builders import QWEN_7B, flat


def made(peak_gb):
    whole = forecast(flat(), QWEN_7B, 80.0, 8)
    return replace(whole, phases=(PhasePeak(phase="update_actor", terms={"logits": peak_gb}),))


@pytest.mark.parametrize(("peak_gb", "hopeless"), [(60.0, False), (85.0, False), (200.0, True)])
def test_untaught_only_the_clearly_hopeless_is_rejected(peak_gb, hopeless):
    assert judge(made(peak_gb), Correction(80.0)).is_hopeless() is hopeless


def test_trials_make_it_sure_near_the_limit():
    taught = Correction(80.0).learn(
        MeasuredPeak(phase="update_actor", predicted_gb=gb, measured_gb=gb) for gb in (40.0, 55.0, 70.0)
    )
    found = judge(made(85.0), taught)
    assert found.is_hopeless()
    assert found.measurements == 3
    assert found.cause.startswith("update_actor would need 85.")
    assert found.cause.endswith(" GB of 80.0; logits takes most")
    assert not judge(made(76.0), taught).is_hopeless()


def test_the_expected_share_is_graded_and_never_clipped():
    assert judge(made(160.0), Correction(80.0)).expected_frac == pytest.approx({"update_actor": 2.0})
    assert judge(made(40.0), Correction(80.0)).expected_frac == pytest.approx({"update_actor": 0.5})


def test_every_phase_is_kept_with_its_largest_term_and_its_peak_at_the_limit():
    whole = forecast(flat(), QWEN_7B, 80.0, 8)
    at_limit = forecast(flat(), QWEN_7B, 80.0, 8, lengths=Lengths.at_limit(flat()))
    found = judge(whole, Correction(80.0), at_limit=at_limit)
    assert [one.phase for one in found.phases] == [one.phase for one in whole.phases]
    update = found.of("update_actor")
    assert update.predicted_gb == update.expected_gb == whole.peak_of("update_actor")
    assert update.largest_term == "actor_optimizer"
    assert update.at_limit_gb == at_limit.peak_of("update_actor")
    assert update.at_limit_gb > update.predicted_gb


def test_about_one_in_n_rejected_candidates_runs_anyway_and_always_the_same_ones():
    chosen = [number for number in range(2000) if is_audited(number, every=10)]
    assert len(chosen) == pytest.approx(200, rel=0.2)
    assert chosen == [number for number in range(2000) if is_audited(number, every=10)]


def test_audits_that_survive_end_the_trust():
    record = AuditRecord()
    for oom in (True, False, True):
        record = record.after(ran_out_of_memory=oom)
    assert record.trusted
    assert not record.after(ran_out_of_memory=False).trusted
