"""The screen of a running job, from one snapshot."""

import io

import pytest
from rich.console import Console

from autotune.controller.progress import DeviceMemory, FinishedTrial, FlightProgress, Standing
from autotune.job.model import BudgetSection
from autotune.records import AttemptRole, Figures, StageName
from autotune.report.run_screen import memory_bar, run_screen

FLIGHT = FlightProgress(
    number=3,
    role=AttemptRole.MEASURE,
    attempt=0,
    phase="update_actor",
    step=2,
    steps=4,
    elapsed_s=71.6,
    tokens_per_s_per_gpu=1234.5,
    reward=0.4567,
    kl=0.01234,
    peak_memory_frac=0.715,
    devices=tuple(
        DeviceMemory(device=f"gpu:{index}", used_frac=0.5, peak_frac=0.715, capacity_gb=80.0)
        for index in range(8)
    ),
)
FINISHED = (
    FinishedTrial(
        number=1, outcome="oom_gpu_actor_update", accepted=False, figures=Figures(peak_memory_frac=0.97)
    ),
    FinishedTrial(
        number=2,
        outcome="completed",
        accepted=True,
        figures=Figures(peak_memory_frac=0.71, tokens_per_s_per_gpu=1180.0, reward=0.5, kl=0.02),
    ),
)


def standing(**changes):
    values = {
        "stage": StageName.SPEED,
        "told": 2,
        "planned": 6,
        "best": 1180.0,
        "device_s": 5400.0,
        "wall_s": 5400.0,
        "budget": BudgetSection(gpu_hours=4, trials=40, wall_hours=2),
        "flights": (FLIGHT,),
        "trials": 7,
        "memory_limit_frac": 0.8,
        "finished": FINISHED,
    }
    return Standing(**{**values, **changes})


def lines(width=120, **changes):
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(run_screen(standing(**changes), width))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_stage_budget_flight_and_what_finished():
    shown = lines()
    assert shown[0] == "speed  2 of 6 trials told  best 1,180 tok/s/GPU"
    assert shown[1] == "used  GPU hours 1.5/4 (2.5 left)  trials 7/40 (33 left)  hours 1.5/2 (0.5 left)"
    assert shown[3].startswith("#3  step 2/4 ")
    assert shown[3].endswith("1 min 12 s")
    assert shown[4].split() == ["update_actor", "1,234", "tok/s/GPU", "reward", "0.4567", "KL", "0.01234"]
    assert shown[5].count("50 % peak 72 %") == 2
    assert shown[-3] == "last finished"
    assert shown[-2] == "#2 completed accepted  peak 71 %  tok/s/GPU 1,180  reward 0.5  KL 0.02"
    assert shown[-1] == "#1 oom_gpu_actor_update  peak 97 %"


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(len(line) for line in lines(width)) <= width


def test_sixty_columns_lose_nothing_of_a_running_trial():
    shown = lines(60, finished=())
    assert not [line for line in shown if "\u2026" in line]
    assert len([line for line in shown if "gpu:" in line]) == 8


def test_before_the_first_step_there_is_only_a_phase():
    flight = FlightProgress(
        number=0,
        role=AttemptRole.CERTIFICATE,
        attempt=1,
        phase="launch",
        step=0,
        steps=2,
        elapsed_s=0.0,
        tokens_per_s_per_gpu=None,
        reward=None,
        kl=None,
        peak_memory_frac=None,
    )
    shown = lines(best=None, budget=BudgetSection(), flights=(flight,), finished=())
    assert shown[0] == "speed  2 of 6 trials told"
    assert shown[1] == "used  GPU hours 1.5  hours 1.5"
    assert shown[3].startswith("#0 certificate (attempt 2)  step 0/2 ")
    assert shown[4:] == ["    launch"]


@pytest.mark.parametrize(
    ("used", "peak", "limit", "bar"),
    [
        (0.5, 0.5, None, "FFFFF-----"),
        (0.3, 0.5, 0.8, "FFFPP---L-"),
        (0.0, 0.0, 0.8, "--------L-"),
        (1.4, 1.4, 1.0, "FFFFFFFFFL"),
    ],
)
def test_a_bar_shows_use_peak_and_limit(used, peak, limit, bar):
    cells = {"F": "\u2588", "P": "\u2592", "-": "\u2591", "L": "\u2502"}
    made = memory_bar(used, peak, limit, width=10)
    assert made.plain == "".join(cells[letter] for letter in bar)


def test_a_peak_over_the_limit_is_red():
    assert memory_bar(0.5, 0.9, 0.8).style == "red"
    assert memory_bar(0.5, 0.7, 0.8).style != "red"
