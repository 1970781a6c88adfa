"""Failures by kind with the decisive line."""

import pytest

from tests.report.study import LINE


def test_the_most_frequent_kind_first_with_its_line(studied):
    first = studied.failures[0]
    assert first.kind == "oom_gpu_actor_update"
    assert first.trials[:2] == ("survive/0", "speed/4")
    assert (first.line_number, first.line, first.phases) == (1216, LINE, ("update_actor",))
    assert first.gpu_s == pytest.approx(2400 * len(first.trials))
    counts = [len(one.trials) for one in studied.failures]
    assert counts == sorted(counts, reverse=True)
    assert studied.failures[-1].kind == "kl_drift"
