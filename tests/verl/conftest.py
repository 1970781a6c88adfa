"""The stories run two at a time in the background, in the order of STORIES; tests wait for theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autotune.verl_plugin.tiny_job import make_tiny_job
from tests.verl import stories
from tests.verl.small_ladder import Climbed, climb
from tests.verl.stories import SECRET, Told, run, tiny_job, write_reward
from tests.verl.warm_story import Attempted, serve_all

Story = Callable[[Path, Path], Told]


def silent_hang(folder: Path, tiny: Path) -> Told:
    # Longer than a first rollout takes while two others start beside it: it is to hang, not to be slow.
    stages = {"survive": {"search_space": "survive_tiny_cpu", "steps": 40, "trials": 1, "certificate": None}}
    job = tiny_job(folder, tiny, stages=stages, guards={"step_silence_s": 75.0})
    return run(job, stories.stop_the_engine)


def raising_reward(folder: Path, tiny: Path) -> Told:
    # The message is the expected one only where the job's secret has reached verl's reward worker.
    known = "__import__('os').environ.get('SOME_API_KEY') is not None"
    reward = write_reward(folder, f"raise KeyError('no such answer' if {known} else 'no key')")
    notify = {"command": ["sh", "-c", f"cat > {folder}/told.json"], "events": ["stop"]}
    secret = {"environment": {"SOME_API_KEY": SECRET}}
    return run(tiny_job(folder, tiny, reward, notify=notify, verl=secret))


def wall_limit(folder: Path, tiny: Path) -> Told:
    return run(tiny_job(folder, tiny, guards={"wall_limit_s": 20.0}))


def ppo_with_critic_on_two_ranks(folder: Path, tiny: Path) -> Told:
    critic = {
        "algorithm.adv_estimator": "gae",
        "critic.strategy": "fsdp2",
        "critic.model.path": str(tiny / "model"),
        "critic.model.use_remove_padding": False,
        "critic.model.override_config.attn_implementation": "sdpa",
        "critic.fsdp.use_torch_compile": False,
        "critic.fsdp.mixed_precision.param_dtype": "fp32",
        "critic.optim.lr": 1.0e-3,
        "critic.ppo_micro_batch_size_per_gpu": 8,
    }
    return run(tiny_job(folder, tiny, critic, resources={"gpus_per_trial": 2, "warm_sessions": True}))


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        silent_hang,
        raising_reward,
        wall_limit,
        ppo_with_critic_on_two_ranks,
    )
}


TIMES: dict[str, str] = {}
"""Story to what it took from the first sign until nothing was left; printed at the end of a run."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if TIMES:
        terminalreporter.section("from the first sign until everything was ended")
        for name, times in TIMES.items():
            terminalreporter.write_line(f"{name:<30} {times}")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny job's model and data, made once."""
    folder = tmp_path_factory.mktemp("tiny") / "tiny"
    make_tiny_job(folder)
    return folder


@pytest.fixture(scope="session")
def running(
    request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Any]]]:
    """All that the selected tests need, started at once, two at a time: one alone leaves a core idle."""
    wanted = " ".join(item.nodeid for item in request.session.items)
    root = tmp_path_factory.mktemp("stories")
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures: dict[str, Future[Any]] = {}
        if "test_ladder" in wanted:
            futures["ladder"] = pool.submit(climb, root / "small-ladder", tiny)
        if "test_warm_session" in wanted:
            futures["warm"] = pool.submit(serve_all, root / "warm", tiny)
        for name, story in STORIES.items():
            if name in wanted:
                futures[name] = pool.submit(story, root / name.replace("_", "-"), tiny)
        yield futures
        for future in futures.values():
            future.cancel()


@pytest.fixture(scope="session")
def ladder(running: dict[str, Future[Any]]) -> Climbed:
    """The small ladder, once it has ended."""
    climbed: Climbed = running["ladder"].result()
    return climbed


@pytest.fixture(scope="session")
def warm(running: dict[str, Future[Any]]) -> Callable[[], dict[str, Attempted]]:
    """What came of the warm session's candidates, once they have ended."""

    def came() -> dict[str, Attempted]:
        attempted: dict[str, Attempted] = running["warm"].result()
        for name, one in attempted.items():
            if one.stop is not None:
                TIMES[f"warm: {name}"] = f"guard {one.stop.kind}, session free {one.freed_s:.1f} s later"
        return attempted

    return came


@pytest.fixture(scope="session")
def told(running: dict[str, Future[Any]]) -> Callable[[str], Told]:
    """What came of a story, once it has ended."""

    def of(name: str) -> Told:
        story: Told = running[name].result()
        TIMES[name] = stories.times_of(story)
        return story

    return of
