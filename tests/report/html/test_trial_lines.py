"""The table of all trials."""

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
