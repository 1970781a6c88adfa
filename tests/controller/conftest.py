"""A whole controller over a synthetic verl: real configuration, Optuna, SQLite; only processes are played."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotune.clock import ManualClock
from autotune.controller.loop import Controller
from autotune.controller.progress import SilentWatcher
from autotune.controller.services import Services
from autotune.job.model import Job
from autotune.job.paths import JobPaths
from autotune.records import AttemptEnd, Event, LogEvidence, MemorySample, MetricRow, PhaseMark
from autotune.search.study import open_storage
from autotune.store.store import Store
from autotune.trial.preparation import Preparer
from autotune.trial.request import AttemptRequest

MICRO_BATCH = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
SEQUENCES = "actor_rollout_ref.rollout.max_num_seqs"
LR = "actor_rollout_ref.actor.optim.lr"

KNOWN_MODEL = Path(__file__).parent.parent / "data" / "controller" / "known_model"
"""Its vocabulary is so large that a micro batch of 32 is hopeless and one of 8 is not.

One path for all tests: a model's path is read all over verl's configuration, which is composed anew for each.
"""

Script = Callable[[AttemptRequest, dict[str, Any]], list[Event]]


def verl_overrides() -> dict[str, Any]:
    """A GRPO configuration that verl's own rules accept."""
    return {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": "train.parquet",
        "data.val_files": "val.parquet",
        "data.train_batch_size": 16,
        "data.max_prompt_length": 64,
        "data.max_response_length": 64,
        "actor_rollout_ref.model.path": "model",
        "actor_rollout_ref.actor.ppo_mini_batch_size": 16,
        MICRO_BATCH: 64,
        "actor_rollout_ref.actor.use_kl_loss": True,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": 4,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 8,
        SEQUENCES: 16,
    }


def job_of(results: Path, **changes: Any) -> Job:
    """A three-stage job on one CPU slot; `changes` replace whole sections."""
    micro = {"kind": "categorical", "choices": [4, 8, 16, 32, 64]}
    sections: dict[str, Any] = {
        "name": "played",
        "verl": {"overrides": verl_overrides()},
        "resources": {"device": "cpu"},
        "storage": {"results": str(results)},
        "guards": {"kl_limit": 0.5},
        "stages": {
            "survive": {
                "search_space": {"name": "s", "parameters": {MICRO_BATCH: micro}},
                "steps": 3,
                "trials": 8,
            },
            "speed": {
                "search_space": {
                    "name": "v",
                    "parameters": {
                        MICRO_BATCH: micro,
                        SEQUENCES: {"kind": "categorical", "choices": [16, 64]},
                    },
                },
                "steps": 4,
                "trials": 6,
            },
            "quality": {
                "search_space": {
                    "name": "q",
                    "parameters": {LR: {"kind": "float", "low": 1e-7, "high": 1e-4, "log": True}},
                },
                "steps": 6,
                "trials": 4,
            },
        },
    }
    return Job.model_validate({**sections, **changes})


def job_of_known_model(folder: Path, **changes: Any) -> Job:
    """The same job with a model whose memory can be forecast, on workers of 1 GB."""
    overrides = {**verl_overrides(), "actor_rollout_ref.model.path": str(KNOWN_MODEL)}
    resources = {"device": "cpu", "cpu": {"worker_memory_cap_gb": 1.0}}
    return job_of(folder / "results", **{"verl": {"overrides": overrides}, "resources": resources, **changes})


class Crash(BaseException):
    """Stands for kill -9: nothing after it is carried out."""


def crash_after(store: Store, writes: int) -> None:
    """Lets the controller die once the store has carried out so many writes."""
    left = writes
    methods = (
        "add_trial",
        "add_forecast",
        "start_attempt",
        "attempt_is_running",
        "add_events",
        "end_attempt",
        "end_trial",
    )
    for name in methods:
        real = getattr(store, name)

        def crashing(*args: Any, _real: Any = real, **kwargs: Any) -> Any:
            nonlocal left
            answer = _real(*args, **kwargs)
            left -= 1
            if left == 0:
                raise Crash
            return answer

        setattr(store, name, crashing)


@lru_cache(maxsize=4)  # validated, then launched
def configuration(text: str) -> dict[str, Any]:
    """The configuration of a request, to be read only; by libyaml where there is one, which takes less."""
    tree: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tree


def value_of(tree: dict[str, Any], key: str) -> Any:
    """The value of a dotted key in verl's configuration."""
    node: Any = tree
    for part in key.split("."):
        node = node[part]
    return node


def synthetic_verl(request: AttemptRequest, tree: dict[str, Any]) -> list[Event]:
    """Runs out of memory over a micro batch of 16; faster with more sequences; learns with lr."""
    micro = value_of(tree, MICRO_BATCH)
    steps = value_of(tree, "trainer.total_training_steps")
    events: list[Event] = [PhaseMark(phase="model_load", at_s=1.0), PhaseMark(phase="update_actor", at_s=2.0)]
    if micro > 16:
        line = LogEvidence(
            line_number=7,
            text="RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.",
            kind="oom_gpu_actor_update",
            phase="update_actor",
            level=4,
            at_s=3.0,
        )
        return [*events, line, AttemptEnd(at_s=4.0, exit_code=1, asked=False)]
    fast = 1.0 + 0.2 * (micro == 16) + 0.3 * (value_of(tree, SEQUENCES) == 64)
    lr = value_of(tree, LR)
    for step in range(1, steps + 1):
        events.append(
            MemorySample(
                at_s=2.0 + step,
                phase="update_actor",
                device="rank:0",
                used_gb=0.3 * micro / 8,
                capacity_gb=1.0,
            )
        )
        values = {
            "perf/throughput": 100.0 * fast,
            "critic/rewards/mean": 0.4 + 0.02 * step * (lr / 1e-6),
            "critic/rewards/max": 1.0,
            "actor/kl_loss": 0.01 * step * (lr / 1e-6),
            "actor/grad_norm": 1.0,
            "timing_s/step": 1.0,
        }
        events.append(MetricRow(step=step, at_s=2.0 + step, values=values))
    return [*events, AttemptEnd(at_s=3.0 + steps, exit_code=0, asked=False)]


@dataclass
class PlayedLauncher:
    """Plays an attempt's events by the manual clock; a launcher like any other to the controller."""

    clock: ManualClock
    script: Script = synthetic_verl
    limit: int = 1
    """Devices on its one node."""
    holds_sessions: bool = False
    """Whether a session stays behind on the devices of an ended attempt, until another needs them."""
    started: list[AttemptRequest] = field(default_factory=list)
    cold_starts: int = 0
    held: dict[str, int] = field(default_factory=dict)
    """Devices of running attempts, by attempt id."""
    _idle: list[tuple[str, int]] = field(default_factory=list)
    _playing: dict[str, tuple[float, list[Event]]] = field(default_factory=dict)

    def slots(self, gpus: int = 1) -> int:
        return (self.limit - sum(self.held.values())) // gpus

    def largest(self) -> int:
        return self.limit

    def warm_keys(self) -> frozenset[str]:
        return frozenset(key for key, _ in self._idle)

    def _sit_down(self, request: AttemptRequest) -> None:
        """In the session of its key; else the oldest ones make room for a new process."""
        session = (request.session_key, request.gpus)
        if session in self._idle:
            self._idle.remove(session)
        else:
            self.cold_starts += 1
            taken = sum(self.held.values()) + request.gpus
            while self._idle and taken + sum(gpus for _, gpus in self._idle) > self.limit:
                self._idle.pop(0)
        self.held[request.attempt_id] = request.gpus

    def _get_up(self, attempt_id: str) -> None:
        del self._playing[attempt_id]
        gpus = self.held.pop(attempt_id)
        request = next(one for one in self.started if one.attempt_id == attempt_id)
        if self.holds_sessions and request.session_key is not None:
            self._idle.append((request.session_key, gpus))

    def start(self, request: AttemptRequest) -> None:
        assert self.slots(request.gpus) > 0
        self.started.append(request)
        events = self.script(request, configuration(request.config_text))
        self._sit_down(request)
        self._playing[request.attempt_id] = (self.clock.now_s(), events)

    def poll(self) -> list[tuple[str, Event]]:
        due: list[tuple[str, Event]] = []
        for attempt_id, (began_s, events) in list(self._playing.items()):
            while events and events[0].at_s <= self.clock.now_s() - began_s:
                due.append((attempt_id, events.pop(0)))
                if isinstance(due[-1][1], AttemptEnd):
                    self._get_up(attempt_id)
        return due

    def end(self, attempt_id: str, reason: str, spare_s: float | None = None) -> None:
        began_s, _ = self._playing[attempt_id]
        at_s = self.clock.now_s() - began_s
        self._playing[attempt_id] = (began_s, [AttemptEnd(at_s=at_s, exit_code=1, asked=True)])

    def close(self) -> None:
        self._playing.clear()
        self.held.clear()


class AgreeableValidator:
    """Stands where verl's own validation runs in a child process; the real one has its own tests."""

    def __init__(self, refuse: Callable[[dict[str, Any]], list[str]] = lambda tree: []) -> None:
        self._refuse = refuse

    def validate(self, config_yaml: str) -> list[str]:
        return self._refuse(configuration(config_yaml))

    def longest_prompts(self, config_yaml: str, rows: int, target: Path) -> int:
        return rows


@dataclass
class Rig:
    """One controller process, so to speak; several may follow each other on the same results."""

    services: Services
    controller: Controller
    launcher: PlayedLauncher
    store: Store


RigMaker = Callable[..., Any]


@pytest.fixture(scope="session")
def optuna_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with Optuna's empty tables: to make them is slow, to copy the file is not."""
    path = tmp_path_factory.mktemp("optuna") / "empty.db"
    open_storage(f"sqlite:///{path}").engine.dispose()
    return path


@pytest.fixture
def rig(tmp_path: Path, optuna_tables: Path) -> RigMaker:
    """A context manager that opens a controller on this test's results folder."""

    @contextmanager
    def make(
        script: Script = synthetic_verl,
        *,
        limit: int = 1,
        validator: AgreeableValidator | None = None,
        job: Job | None = None,
        watcher: Any = None,
    ) -> Iterator[Rig]:
        job = job or job_of(tmp_path / "results")
        clock = ManualClock()
        launcher = PlayedLauncher(clock, script, limit)
        preparer = Preparer(
            job,
            validator=validator or AgreeableValidator(),  # type: ignore[arg-type]
            working_directory=tmp_path,
            python="python",
        )
        paths = JobPaths(Path(job.storage.results), job.name)
        if not paths.database.exists():
            paths.database.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(optuna_tables, paths.database)
        url = f"sqlite:///{paths.database}"
        with Store.open(url, job_name=job.name, job_hash="0" * 16, version="test") as store:
            services = Services(
                job=job,
                store=store,
                launcher=launcher,
                preparer=preparer,
                paths=paths,
                clock=clock,
                watcher=watcher or SilentWatcher(),
            )
            controller = Controller(
                job, store=store, launcher=launcher, clock=clock, watcher=watcher or SilentWatcher()
            )
            yield Rig(services, controller, launcher, store)

    return make
