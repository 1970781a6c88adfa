"""The memory forecast at work: made before a launch, stored, corrected by the trials that finished.

What it knows is a function of the store: forecasts and verdicts of ended trials, in their order. So it
is the same after a crash, and a later stage starts with what the earlier ones taught. What follows from
a forecast is decided in `ladder/prelaunch.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from autotune.controller.flight import Flight
from autotune.controller.progress import Watcher
from autotune.forecast.correction import CAPPED_CPU_WORKER, GPU
from autotune.forecast.hardware import gpu_inventory
from autotune.forecast.keys import MODEL, Flat
from autotune.forecast.lengths import Lengths
from autotune.forecast.memory import forecast
from autotune.forecast.model_facts import ModelFacts, model_facts
from autotune.forecast.peak_line import peak_on_line
from autotune.forecast.rejection import Judgement, judge
from autotune.forecast.workload import largest_micro_batch_tokens
from autotune.job.model import Job
from autotune.ladder.flight import EndedAttempt
from autotune.ladder.lessons import Lesson, Lessons, TrialKey, ran_out_of_memory
from autotune.ladder.prelaunch import rejection
from autotune.ladder.view import StageView, TrialView
from autotune.records import Figures, Outcome, StageName, Verdict
from autotune.store.store import Store
from autotune.store.stored import StoredAttempt
from autotune.verl_config.training_shape import gpus_of

FlatOf = Callable[[int], Flat]
"""A trial's number to its resolved verl configuration."""


class MemoryForecasts:
    """One job's forecasts as one stage sees them; the controller is its only caller."""

    def __init__(self, job: Job, stage: StageName, store: Store, watcher: Watcher) -> None:
        self._job, self._stage, self._store, self._watcher = job, stage, store, watcher
        self._capacity_gb = device_memory_gb(job)
        self._models: dict[object, ModelFacts | None] = {}
        self._lessons = Lessons(CAPPED_CPU_WORKER if job.resources.device == "cpu" else GPU)
        stored = store.trials()
        self._is_fresh = not stored
        for trial in stored:
            if trial.ended_utc is None:
                continue
            self._take(_key(trial.stage, trial.number), trial.id, _ended(store.attempts(trial.id)))

    def before_launch(self, view: StageView, flight: Flight, flat: Flat) -> Verdict | None:
        """Makes and stores the forecast of a trial; its verdict where it is not to be launched.

        Args:
            view: The stage at this moment.
            flight: The trial, before its first attempt.
            flat: The resolved configuration of that attempt.
        """
        judged = self._judged(flight, flat)
        if judged is None:
            return None
        verdict = rejection(view, flight.candidate, flight.number, judged, self._lessons.audits)
        if verdict is None and judged.is_hopeless():
            self._watcher.say(f"{self._stage.value} #{flight.number}: runs although {judged.cause}")
        return verdict

    def learn(self, flight: Flight, verdict: Verdict) -> None:
        """Takes in a trial that has ended, before it is told."""
        self._take(_key(self._stage, flight.number), flight.trial_id, flight.attempts)
        self._learn_capacity(verdict.figures)

    def expected_frac(
        self, view: TrialView, others: Iterable[TrialView], flat_of: FlatOf
    ) -> Mapping[str, float]:
        """Peaks by phase, as shares of the device, that an ended trial did not live to show.

        Args:
            view: The trial; of one that measured its peaks nothing is expected any more.
            others: The stage's trials: where no forecast can be made, those that came through the
                failing phase say how it grows.
            flat_of: Asked only in that case.
        """
        if view.verdict is None:
            return {}
        lesson = self._lessons.of(_key(self._stage, view.number))
        if lesson is None:
            return _on_line(view, others, flat_of, self._gpus)
        judged = lesson.judgement
        if view.verdict.outcome is Outcome.REJECTED:
            return judged.expected_frac
        if not ran_out_of_memory(view.verdict):
            return {}
        correction = self._lessons.correction(judged.capacity_gb)
        return {
            one.phase: correction.estimate(one.phase, one.predicted_gb).mean_gb / judged.capacity_gb
            for one in judged.phases
        }

    def _judged(self, flight: Flight, flat: Flat) -> Judgement | None:
        """The stored forecast of a trial about to be launched; None where none can be made."""
        model = self._model(flat)
        if model is None or self._capacity_gb is None:
            return None
        gpus, capacity_gb = self._gpus(flat), self._capacity_gb
        at_limit = forecast(flat, model, capacity_gb, gpus, lengths=Lengths.at_limit(flat))
        made = forecast(flat, model, capacity_gb, gpus)
        judged = judge(made, self._lessons.correction(capacity_gb), at_limit=at_limit)
        self._store.add_forecast(flight.trial_id, judged)
        return judged

    def _gpus(self, flat: Flat) -> int:
        return gpus_of(flat, self._job.resources.gpus_per_trial)

    def _take(self, key: TrialKey, trial_id: int, ended: Sequence[EndedAttempt]) -> None:
        for attempt in ended:
            self._learn_capacity(attempt.verdict.figures)
        judged = self._store.forecast(trial_id)
        if judged is not None:
            self._lessons.learn(key, Lesson(judged, tuple(ended)))

    def _learn_capacity(self, figures: Figures) -> None:
        """Of a device that only the trials see: on another node, behind a cluster's address."""
        if self._capacity_gb is None and figures.peak_memory_gb and figures.peak_memory_frac:
            self._capacity_gb = figures.peak_memory_gb / figures.peak_memory_frac

    def _model(self, flat: Flat) -> ModelFacts | None:
        path = flat.get(f"{MODEL}.path")
        if path not in self._models:
            facts = model_facts(path) if isinstance(path, str) else None
            if facts is None and self._is_fresh and not self._models:
                text = f"no memory forecast: the architecture of {path} is not known; candidates run unjudged"
                self._watcher.say(text)
            self._models[path] = facts
        return self._models[path]


def device_memory_gb(job: Job) -> float | None:
    """Memory of one of the job's devices; None where it is not known here, or nothing limits it."""
    resources = job.resources
    if resources.device == "cpu":
        return resources.cpu.worker_memory_cap_gb
    if resources.ray_address:
        return None
    return min((gpu.total_gb for gpu in gpu_inventory()), default=None)


def _ended(attempts: Iterable[StoredAttempt]) -> list[EndedAttempt]:
    """Stored attempts as the flight had them."""
    return [
        EndedAttempt(one.role, one.verdict, one.end is not None and one.end.session_number > 0)
        for one in attempts
        if one.verdict is not None
    ]


def _key(stage: StageName, number: int) -> TrialKey:
    return list(StageName).index(stage), number


def _on_line(
    view: TrialView, others: Iterable[TrialView], flat_of: FlatOf, gpus: Callable[[Flat], int]
) -> Mapping[str, float]:
    """The failing phase's peak by those of other trials, for models that no forecast knows."""
    if view.verdict is None or not ran_out_of_memory(view.verdict) or view.verdict.failure is None:
        return {}
    phase = view.verdict.failure.phase
    known = []
    for other in others:
        peak = other.verdict.figures.peak_by_phase_frac.get(phase) if other.verdict else None
        if other.number == view.number or peak is None:
            continue
        flat = flat_of(other.number)
        tokens = largest_micro_batch_tokens(flat, phase, gpus(flat))
        if tokens is not None:
            known.append((tokens, peak))
    flat = flat_of(view.number)
    peak = peak_on_line(known, largest_micro_batch_tokens(flat, phase, gpus(flat)))
    return {} if peak is None else {phase: peak}
