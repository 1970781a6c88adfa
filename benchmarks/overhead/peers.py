"""The same work by plain Optuna and by Ray Tune: propose, report each row, end the trial, keep it on disk."""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path
from typing import Any

from autotune.job.resolved_space import ResolvedSpace
from autotune.search.distributions import distribution
from benchmarks.overhead.ours import space, speed_of


def measure_optuna(trials: int, rows: int, folder: Path, limit_s: float) -> dict[str, float]:
    """Optuna's TPE with its RDB storage on SQLite, ask and tell, one intermediate value for each row.

    Optuna keeps no metric rows, samples or evidence: this is less than what ours stores.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    chance, where = random.Random(1), space()
    shapes = {parameter.key: distribution(parameter) for parameter in where.parameters}
    database = folder / "optuna.db"
    before_mb = _peak_mb()
    study = optuna.create_study(
        storage=f"sqlite:///{database}",
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=1, multivariate=True, constant_liar=True),
    )
    report_s, made = 0.0, 0
    moments = []
    began_s, wall_s = time.process_time(), time.perf_counter()
    for _ in range(trials):
        moments.append((time.process_time(), report_s))
        if time.perf_counter() - wall_s > limit_s:
            break
        trial = study.ask(fixed_distributions=shapes)
        speed = speed_of(trial.params, chance)
        reporting_s = time.process_time()
        for step in range(1, rows + 1):
            trial.report(speed, step)
        report_s += time.process_time() - reporting_s
        study.tell(trial, speed)
        made += 1
    whole_s, wall_s = time.process_time() - began_s, time.perf_counter() - wall_s
    answer = _answer(made, rows, whole_s - report_s, report_s, moments, before_mb, database.stat().st_size)
    return {**answer, "wall_ms": 1e3 * wall_s / made}


def measure_ray_tune(trials: int, rows: int, folder: Path, limit_s: float) -> dict[str, float]:
    """Ray Tune's own loop with OptunaSearch: a trainable that reports its rows at once, actors reused.

    Tune has no launcher that could be replaced, so its wall time holds the actor's calls; its milliseconds
    are those of the driver process alone, metric rows among them.
    """
    import logging

    import ray
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    class Trainable(tune.Trainable):  # type: ignore[misc]
        def setup(self, config: dict[str, Any]) -> None:
            self.chance = random.Random(1)

        def step(self) -> dict[str, Any]:
            speed = speed_of(self.config, self.chance)
            values = {f"timing_{n}": 0.5 for n in range(58)}
            return {**values, "speed": speed, "done": self.iteration + 1 >= rows}

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self.config = new_config
            return True

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            """Nothing to keep."""

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    before_mb = _peak_mb()
    began_s, wall_s = time.process_time(), time.perf_counter()
    try:
        results = tune.Tuner(
            Trainable,
            tune_config=tune.TuneConfig(
                metric="speed",
                mode="max",
                search_alg=OptunaSearch(_tune_space(space()), metric="speed", mode="max", seed=1),
                num_samples=trials,
                max_concurrent_trials=1,
                reuse_actors=True,
                time_budget_s=limit_s,
            ),
            run_config=tune.RunConfig(name="overhead", storage_path=str(folder), verbose=0),
        ).fit()
        whole_s, wall_s = time.process_time() - began_s, time.perf_counter() - wall_s
        made = sum(1 for result in results if (result.metrics or {}).get("training_iteration", 0) >= rows)
    finally:
        ray.shutdown()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    answer = _answer(max(made, 1), rows, whole_s, 0.0, [], before_mb, size)
    return {**answer, "wall_ms": 1e3 * wall_s / max(made, 1)}


def _tune_space(where: ResolvedSpace) -> Any:
    """The same space in OptunaSearch's own form."""
    return {parameter.key: distribution(parameter) for parameter in where.parameters}


def _answer(
    made: int,
    rows: int,
    trial_s: float,
    report_s: float,
    moments: list[tuple[float, float]],
    before_mb: float,
    size_bytes: int,
) -> dict[str, float]:
    tenth = max(made // 10, 10)
    windows = {}
    if len(moments) > 2 * tenth:
        for name, window in (("early_ms", moments[tenth : 2 * tenth]), ("late_ms", moments[-tenth:])):
            (first_s, first_rows_s), (last_s, last_rows_s) = window[0], window[-1]
            windows[name] = 1e3 * (last_s - first_s - (last_rows_s - first_rows_s)) / max(len(window) - 1, 1)
    return {
        "trials": made,
        "rows": made * rows,
        "ms_per_trial": 1e3 * trial_s / made,
        "ms_per_row": 1e3 * report_s / (made * rows),
        **windows,
        "memory_mb": _peak_mb() - before_mb,
        "database_mb": size_bytes / 1e6,
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
