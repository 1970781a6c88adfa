import pytest

from autotune.judge.console_metrics import metric_row, steps_asked


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("step:3 - a/b:1.5 - c:2", {"a/b": 1.5, "c": 2.0}),
        (
            "\x1b[36m(TaskRunner pid=1)\x1b[0m step:3 - a:nan - b:inf - c:-1e-05",
            {"a": None, "b": None, "c": -1e-5},
        ),
        ("(main_task pid=1) step:3 - a:np.float64(0.25) - b:tensor(2.)", {"a": 0.25, "b": 2.0}),
        ("step:3 - val-core/gsm8k/acc/mean@1:0.5 - text:word", {"val-core/gsm8k/acc/mean@1": 0.5}),
    ],
)
def test_a_metric_line_gives_its_figures(line, values):
    row = metric_row(line, 7.0)
    assert (row.step, row.at_s, row.values) == (3, 7.0, values)


@pytest.mark.parametrize("line", ["", "step:3", "the step:3 - a:1", "Epoch 1 - a:2", "step:x - a:1"])
def test_other_lines_give_none(line):
    assert metric_row(line, 0.0) is None


def test_a_line_longer_than_any_other_is_read_whole():
    line = "step:1 - " + " - ".join(f"key/{index}:{index}" for index in range(5000))
    assert metric_row(line, 0.0).values["key/4999"] == 4999.0


def test_the_bar_tells_the_steps_asked():
    assert steps_asked("Training Progress:  12%|#  | 5/40 [00:33<02:42, 4.64s/it]") == 40
    assert steps_asked("Training Progress: done") is None
