import io

from rich.console import Console

from autotune.forecast.memory import forecast
from autotune.report.forecast_table import forecast_sentences, forecast_table
from tests.forecast.builders import ACTOR, QWEN_7B, ROLLOUT, flat


def text_of(table):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_every_phase_is_a_row_with_its_largest_term():
    made = forecast(flat(), QWEN_7B, 79.65, 8)
    text = text_of(forecast_table(made))
    for one in made.phases:
        assert one.phase in text
    assert "actor optimizer" in text


def test_what_fits_and_how_large_it_may_be():
    key = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
    lines = forecast_sentences(forecast(flat(), QWEN_7B, 79.65, 8), {key: 40})
    assert lines[0].startswith("fits: the highest peak is ")
    assert lines[-1] == f"largest that fits: {key}=40"


def test_what_does_not_fit_names_phase_and_term():
    lines = forecast_sentences(forecast(flat(), QWEN_7B, 24.0, 8, host_memory_gb=16.0), {})
    assert lines[0].startswith("does not fit: update_actor needs ")
    assert any(line.startswith("host memory: ") for line in lines)


def test_an_engine_that_cannot_start_is_told_apart():
    made = forecast(flat({f"{ROLLOUT}.gpu_memory_utilization": 0.08}), QWEN_7B, 79.65, 8)
    assert any("cannot start" in line for line in forecast_sentences(made, {}))
