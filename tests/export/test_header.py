"""The header tells what was reached, and what was not."""

from dataclasses import replace

import pytest
import yaml

from autotune.export.header import header
from autotune.ladder import finish
from autotune.records import StageName, StageResult
from tests.ladder.finish_builders import WINNER, ran_pairs, view_of


@pytest.mark.parametrize(
    "line",
    [
        "# Exported by verl-autotune 0.1.0",
        "# job tiny, stage quality, trial 1",
        "#   export NCCL_DEBUG='WARN now'",
        "#   python -m x",
        "#   speed: acceptance met: speed statement",
        "#   quality: acceptance NOT met: quality statement",
        "#     trial 5: peak memory 71.5 % (57.2 GB) in update_actor; "
        "tokens/s/GPU 1400 (the survivor's: 1000, 1.40x); reward 0.5 (the survivor's: 0.5, 1.00x); "
        "KL 0.08 (the survivor's: 0.08, 1.00x)",
        "#   verl-autotune 0.1.0, verl 0.9.1",
        "#   Python 3.11.7, 16 CPUs, 128.0 GB memory",
        "#   GPUs: NVIDIA H100 80GB HBM3 (80 GB), NVIDIA H100 80GB HBM3 (80 GB), driver 570.1",
        "#   commit abc123+changes",
        "#   seeds: survive 1, speed 2",
    ],
)
def test_what_the_header_tells(facts, line):
    assert line in header(facts, ["python -m x"]).splitlines()


def test_reward_and_kl_stand_beside_the_baselines(facts):
    assert "reward 0.55 (the baseline's: 0.5, 1.10x); KL 0.2 (the baseline's: 0.08, 2.50x)" in header(
        facts, []
    )


def test_nothing_ends_the_comment(facts):
    odd = StageResult(
        stage=StageName.SURVIVE,
        trials=1,
        accepted=(),
        acceptance_met=False,
        best=None,
        statement="first line\nrm -rf x\r\nthird\u2028fourth\x1b[31m\udce9",
    )
    text = header(replace(facts, results=(odd,)), ["a\nb"])
    assert all(line.startswith("#") for line in text.splitlines())
    assert yaml.safe_load(text) is None
    text.encode()
    assert "the user's own configuration" in text


def test_without_any_result(facts):
    assert "no stage has ended" in header(replace(facts, results=()), [])


def test_an_extension_of_autotunes_is_named_with_what_it_needs(facts):
    text = header(replace(facts, extensions=("length bucketing", "token check")), ["python -m x"])
    assert "Uses length bucketing, token check, which verl itself does not have" in text
    assert "which verl itself does not have" not in header(facts, ["python -m x"])


def test_without_a_finish_nothing_is_confirmed(facts):
    assert "# NOT CONFIRMED: no finish was run" in header(facts, [])


def test_a_confirmation_stands_with_its_interval_seeds_and_notes(facts):
    shipped = replace(facts.results[-1], overrides=WINNER)
    verdict = replace(finish.verdict(view_of(*ran_pairs(3, gain=0.3))), notes=("the machine drifted",))
    text = header(replace(facts, results=(shipped,), finish=verdict), [])
    assert "# confirmed: better, tokens/s +30.0 % [" in text
    assert "#   6 steps a run, seeds 101, 102, 103, confidence 0.95" in text
    assert "#   the machine drifted" in text
