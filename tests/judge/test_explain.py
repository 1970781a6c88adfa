"""Why a run ended, from its log alone: public reports among a real run's lines, and what must not matter."""

import io
import itertools
import json
import random
import re

import pytest

from autotune.judge.explain import explain
from tests.judge.recorded import DATA, console_lines

CASES = [json.loads(line) for line in (DATA / "known_cases.jsonl").read_text().splitlines()]
# What these reports quote is an ordinary line of a run that went on.
ORDINARY = {"metrics_missing", "config_semantics", "throughput_network", "truncation_high"}
FAILURES = [case for case in CASES if case["category"] not in ORDINARY]
IDS = [f"{case['id']}-{case['category']}" for case in FAILURES]

REAL = list(console_lines("grpo_tiny_40_steps"))
INSIDE = 130
WRAPPERS = [
    "\x1b[36m(TaskRunnerV1 pid=14993)\x1b[0m ray.exceptions.ActorUnavailableError: The actor is temporarily"
    " unavailable: RpcError",
    "\x1b[36m(TaskRunnerV1 pid=14993)\x1b[0m ray.exceptions.RayTaskError(RuntimeError):"
    " ray::TaskRunnerV1.run() (pid=14993, ip=10.0.0.1)",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear"
    " to be 1 leaked shared_memory objects to clean up at shutdown",
    "Async request to resume_memory_occupation timed out (attempt 1)",
]


def explained(lines):
    return explain(io.BytesIO("\n".join(lines).encode()))


def of_rank(rank, lines):
    return [f"\x1b[36m(WorkerDict pid={2000 + rank}, ip=10.0.0.{rank})\x1b[0m {line}" for line in lines]


def other_numbers(line):
    """Other ranks, sizes and processes. Figures that decide a kind stay."""
    kept = r"(-1\b|SeqNum=\d+|error: 2\b|over \d+% full|Value error|\d+ validation|cuda:\d|\d+%\|)"
    parts = re.split(kept, line)
    return "".join(
        part
        if index % 2
        else re.sub(r"(?<![\w.])([1-9]\d{2,})(?![\w.])", lambda m: m[1][::-1].replace("0", "3"), part)
        for index, part in enumerate(parts)
    )


ARRANGEMENTS = {
    "amid a real run": lambda lines: [*REAL[:INSIDE], *lines, *REAL[INSIDE:]],
    "at the end of the start": lambda lines: [*REAL[:100], *lines],
    "between wrappers": lambda lines: [*REAL[:INSIDE], *WRAPPERS, *lines, *WRAPPERS, *WRAPPERS],
    "of four ranks": lambda lines: [
        *REAL[:INSIDE],
        *(line for rank in range(4) for line in of_rank(rank, lines)),
        *WRAPPERS,
    ],
    "interleaved ranks": lambda lines: [
        *REAL[:INSIDE],
        *itertools.chain.from_iterable(zip(*(of_rank(rank, lines) for rank in range(3)), strict=True)),
        *WRAPPERS,
    ],
    "other numbers": lambda lines: [*REAL[:INSIDE], *map(other_numbers, lines), *WRAPPERS],
    "in red": lambda lines: [*REAL[:INSIDE], *(f"\x1b[31m{line}\x1b[0m" for line in lines)],
    "windows line ends": lambda lines: [f"{line}\r" for line in [*REAL[:INSIDE], *lines]],
}


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("case", FAILURES, ids=IDS)
def test_a_public_reports_kind_among_a_real_runs_lines(case, arrangement):
    assert explained(ARRANGEMENTS[arrangement](case["log_lines"])).kind == case["category"]


@pytest.mark.parametrize("case", [case for case in CASES if case["category"] in ORDINARY])
def test_ordinary_lines_are_no_failure(case):
    assert explained([*REAL[:INSIDE], *case["log_lines"], *REAL[INSIDE:]]).kind is None


@pytest.mark.parametrize(
    ("name", "kind", "phase", "finished"),
    [
        ("grpo_tiny_40_steps", None, "done", True),
        ("oom_log_prob_cpu", "oom_gpu_log_prob", "old_log_prob", False),
        ("hang_weight_sync", "hang_weight_sync", "weight_sync", False),
    ],
)
def test_recorded_runs(name, kind, phase, finished):
    found = explained(console_lines(name))
    assert (found.kind, found.phase, found.finished) == (kind, phase, finished)


def test_a_healthy_run_says_so():
    found = explained(REAL)
    assert (found.kind, found.group, found.line, found.steps, found.steps_asked) == (None, None, None, 40, 40)
    assert "all its 40 steps" in found.cause


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.9])
def test_a_log_that_is_cut_off_is_unknown_and_shows_its_end(cut):
    text = "\n".join(REAL)
    found = explain(io.BytesIO(text[: int(len(text) * cut)].encode()))
    assert found.kind == "unknown"
    assert found.last_lines[-1][0] == found.lines_read


def test_wrappers_alone_are_an_actors_death_at_most():
    assert explained([*REAL[:INSIDE], *WRAPPERS]).kind == "ray_actor_death"
    calm = [line for line in WRAPPERS if "died unexpectedly" not in line]
    assert explained([*REAL[:INSIDE], *calm]).kind == "unknown"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\x00\xff\xfe" * 100, b"hello"])
def test_no_run_at_all_is_unknown(data):
    assert explain(io.BytesIO(data)).kind == "unknown"


def test_what_the_shutdown_says_after_the_last_step_is_no_failure():
    assert explained([*REAL, *WRAPPERS, "Segmentation fault (core dumped)"]).kind is None


def test_of_two_runs_in_one_file_the_last_counts():
    failed = list(console_lines("oom_log_prob_cpu"))
    assert explained([*failed, *REAL]).kind is None
    both = explained([*REAL, *failed])
    assert both.kind == "oom_gpu_log_prob"
    assert both.line.line_number > len(REAL)


def test_the_line_number_counts_every_line_of_the_log():
    noise = [f"(TaskRunner pid=7) answer {index}" for index in range(20_000)]
    found = explained([*REAL[:INSIDE], *noise, "torch.OutOfMemoryError: CUDA out of memory."])
    assert found.line.line_number == INSIDE + 20_001


def rows(count, **columns):
    lines = []
    for index in range(count):
        values = {"critic/rewards/mean": 0.5, "critic/score/max": 1.0, "critic/score/min": 0.0}
        values |= {"actor/grad_norm": 1.0, "actor/kl_loss": 0.01, "actor/entropy": 0.4}
        for name, column in columns.items():
            key = {"reward": "critic/rewards/mean", "best": "critic/score/max", "kl": "actor/kl_loss"}.get(
                name, f"actor/{name}"
            )
            values[key] = column(index)
        told = " - ".join(f"{key}:{value}" for key, value in values.items())
        lines.append(f"\x1b[36m(TaskRunner pid=7)\x1b[0m step:{index + 1} - {told}")
    return [*REAL[:100], *lines]


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (rows(12, grad_norm=lambda i: "nan" if i > 8 else 1.0), "nan_inf"),
        (rows(12, reward=lambda i: "nan" if i > 8 else 1.0), "nan_inf"),
        (rows(12, best=lambda i: 0.0), "reward_zero"),
        (rows(20, best=lambda i: 1.0 if i < 10 else 0.0), "reward_collapse"),
        (rows(30, kl=lambda i: 0.02 * 1.3**i, reward=lambda i: 0.8 if i < 20 else 0.1), "kl_drift"),
        (rows(30, entropy=lambda i: 0.4 if i < 15 else 5.0), "entropy_explosion"),
        (rows(30, kl=lambda i: 0.02 * 1.3**i, reward=lambda i: i / 30), "unknown"),
        (rows(30), "unknown"),
    ],
)
def test_figures_of_the_console_show_what_no_line_tells(log, kind):
    found = explained(log)
    assert found.kind == kind
    assert found.line is None


def test_a_device_fault_after_nan_gradients_is_their_consequence():
    log = rows(12, grad_norm=lambda i: "nan" if i > 8 else 1.0)
    found = explained([*log, "RuntimeError: CUDA error: device-side assert triggered"])
    assert found.kind == "nan_inf"
    assert found.also[0].kind == "cuda_fault"


def test_memory_that_grew_step_by_step_is_a_leak():
    remote = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_ref_update_actor()"
    end = [
        remote,
        '  File "/a/torch/nn/module.py", line 3, in forward',
        "torch.OutOfMemoryError: CUDA out of memory.",
    ]
    growing = rows(30, **{"perf/max_memory_allocated_gb": lambda i: 30 + i})
    steady = rows(30, **{"perf/max_memory_allocated_gb": lambda i: 60})
    assert explained([*growing, *end]).kind == "oom_gpu_leak"
    assert explained([*steady, *end]).kind == "oom_gpu_actor_update"


def test_the_same_answer_whatever_stands_between():
    chooser = random.Random(3)
    for case in FAILURES:
        lines = list(REAL[:INSIDE])
        for line in case["log_lines"]:
            lines += chooser.sample(REAL[20:100], 3)
            lines.append(line)
        assert explained([*lines, *WRAPPERS]).kind == case["category"], case["id"]
