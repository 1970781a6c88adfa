"""The table of all trials."""

from dataclasses import replace

from autotune.records import Outcome
from autotune.report.html.page import report_html
from autotune.report.html.trial_lines import trial_lines


def test_one_line_a_trial_with_what_a_column_sorts_by(studied):
    lines = trial_lines(studied)
    assert [line.name for line in lines[:3]] == ["survive/0", "survive/1", "speed/0"]
    assert (lines[0].outcome, lines[0].kind) == ("failed", "oom_gpu_actor_update")
    cells = {cell.name: cell for cell in lines[1].cells}
    assert (cells["peak"].text, round(cells["peak"].value, 2)) == ("74 %", 0.74)
    assert cells["time"].text == "40 min 00 s"


def test_a_trial_shows_what_differs_from_its_stages_start(studied):
    by_name = {line.name: line for line in trial_lines(studied)}
    assert by_name["speed/0"].params == ("actor.ppo_micro_batch_size_per_gpu=8, rollout.max_num_seqs=16")
    assert by_name["speed/2"].params == ""  # its origin names the change
    assert by_name["speed/2"].origin == "one change from #1: actor.ppo_micro_batch_size_per_gpu 8 -> 16"
    assert by_name["quality/3"].params.startswith("optim.lr=")


def test_the_best_of_each_stage_is_marked(studied):
    best = [line.name for line in trial_lines(studied) if line.is_best]
    assert best == ["survive/1", "speed/3", "quality/1"]


def test_what_a_verdict_warns_of_is_beside_it(studied):
    trials = list(studied.trials)
    told = replace(
        trials[3].verdict,
        outcome=Outcome.ENDED_EARLY,
        reason="at step 12 its reward is 0.31, the best had 0.44",
        warnings=("entropy fell from 0.9 to 0.1", "12 % of the responses were clipped"),
        signs=("entropy_fell",),
    )
    trials[3] = replace(trials[3], verdict=told)
    data = replace(studied, trials=tuple(trials))
    line = trial_lines(data)[3]
    assert (line.outcome, line.reason) == ("ended_early", told.reason)
    assert (line.warnings, line.signs) == (told.warnings, ("entropy fell",))
    page = report_html(data)
    assert "<summary>entropy fell</summary>" in page
    assert all(text in page for text in (told.reason, *told.warnings))
