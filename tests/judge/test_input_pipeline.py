import pytest

from autotune.judge.input_pipeline import input_advice, input_wait_frac
from tests.judge.recorded import rows

WAIT = "autotune/data_wait_s"


@pytest.mark.parametrize(
    ("wait_s", "frac"),
    [
        # Step 1 starts the loader's processes; one slow step is no pipeline.
        ([9.0, 0.3, 0.3, 0.3, 0.3], 0.1),
        ([0.0, 0.0, 2.0, 0.0, 0.0], 0.0),
        ([None] * 5, None),
    ],
)
def test_the_median_share_after_the_first_step(wait_s, frac):
    found = input_wait_frac(rows(5, **{WAIT: wait_s}))
    assert found == (None if frac is None else pytest.approx(frac))


def test_nothing_is_known_without_the_monitor():
    assert input_wait_frac(rows(5)) is None
    assert input_advice(rows(5), 8) is None


@pytest.mark.parametrize(
    ("workers", "advice"),
    [
        (0, "10% of a step is spent waiting for prompts: try data.dataloader_num_workers=2 (it is 0)"),
        (8, "10% of a step is spent waiting for prompts: try data.dataloader_num_workers=16 (it is 8)"),
        (
            32,
            "10% of a step is spent waiting for prompts with 32 loader processes: tokenize the prompts beforehand",
        ),
        (None, "10% of a step is spent waiting for prompts: raise data.dataloader_num_workers"),
    ],
)
def test_advice_names_the_value_to_try(workers, advice):
    assert input_advice(rows(5, **{WAIT: 0.3}), workers) == advice


def test_a_short_wait_is_not_worth_a_change():
    assert input_advice(rows(5, **{WAIT: 0.05}), 0) is None
