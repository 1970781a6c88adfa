"""Stage quality through the whole controller: validation, signs, and moves that say why they were made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import optuna

from autotune.controller.ladder_run import run_ladder
from autotune.records import Event, MetricRow, StageName
from tests.controller.conftest import LR, SEQUENCES, job_of, synthetic_verl, value_of

VALIDATION = "val-core/gsm8k/acc/mean@1"
BUCKETS = "ray_kwargs.ray_init.runtime_env.env_vars.AUTOTUNE_LENGTH_BUCKETS"


def memorising(request: Any, tree: dict[str, Any]) -> list[Event]:
    """Rises in training whatever the learning rate; in validation it peaks early, sooner with larger steps."""
    events = synthetic_verl(request, tree)
    every = value_of(tree, "trainer.test_freq")
    made: list[Event] = []
    for event in events:
        if isinstance(event, MetricRow) and every > 0 and event.step % every == 0:
            peaked = 0.5 - 0.02 * event.step * value_of(tree, LR) / 1e-6
            event = replace(event, values={**event.values, VALIDATION: peaked})
        made.append(event)
    return made


def quality_job(results: Any, **sections: Any) -> Any:
    """The played job with eight steps and a validation every fourth."""
    job = job_of(results, guards={}, **sections)
    changes = {"steps": 8, "trials": 4, "validate_every": 4, "kl_band": (0.0, 1.0)}
    quality = job.stages.quality.model_copy(update=changes)
    return job.model_copy(update={"stages": job.stages.model_copy(update={"quality": quality})})


def test_a_falling_validation_is_warned_of_and_answered(rig: Any, tmp_path: Any) -> None:
    with rig(memorising, job=quality_job(tmp_path / "results")) as one:
        results = run_ladder(one.services, one.controller, tuple(StageName))
        trials = one.store.trials(StageName.QUALITY)
        study = optuna.load_study(study_name="played 3 quality", storage=one.store.url)
    first, second = trials[:2]
    assert first.verdict.signs == ("validation_fell",)
    assert first.verdict.figures.validation_reward == first.objective
    assert first.verdict.figures.kl_estimator == "k3"
    assert any("validation reward fell from 0.42 in step 4 to 0.34" in w for w in first.verdict.warnings)
    assert second.candidate.params[LR] == first.candidate.params[LR] / 2
    told = study.trials[1].user_attrs
    assert told["diagnosis"] == "#0: validation falls while the training reward rises"
    assert told["reason"] == "goes less far into the training prompts"
    assert study.trials[0].user_attrs["signs"] == ["validation_fell"]
    # Compared by validation, the timid step wins, which learns least in training.
    best = results[StageName.QUALITY].best_figures
    assert best.validation_reward > first.objective
    assert "validation reward" in results[StageName.QUALITY].statement


def test_a_searched_extension_is_a_parameter_of_stage_speed(rig: Any, tmp_path: Any) -> None:
    """Sorting makes it twice as fast here, so it is found and handed on."""

    def sorted_is_fast(request: Any, tree: dict[str, Any]) -> list[Event]:
        variables = tree["ray_kwargs"]["ray_init"].get("runtime_env", {}).get("env_vars", {})
        factor = 2.0 if variables.get("AUTOTUNE_LENGTH_BUCKETS") == "sorted" else 1.0
        return [
            replace(
                event, values={**event.values, "perf/throughput": factor * event.values["perf/throughput"]}
            )
            if isinstance(event, MetricRow)
            else event
            for event in synthetic_verl(request, tree)
        ]

    job = job_of(tmp_path / "results", extensions={"length_bucketing": "search"})
    speed = job.stages.speed.model_copy(update={"trials": 20})
    job = job.model_copy(update={"stages": job.stages.model_copy(update={"speed": speed})})
    stages = [StageName.SURVIVE, StageName.SPEED]
    with rig(sorted_is_fast, job=job) as one:
        result = run_ladder(one.services, one.controller, stages)[StageName.SPEED]
        flat = one.services.preparer.resolve(result.overrides).flat
    assert flat[BUCKETS] == "sorted"
    assert flat[SEQUENCES] in (16, 64)
    assert result.acceptance_met


def test_the_input_check_names_the_trials_own_workers(rig: Any, tmp_path: Any) -> None:
    def waiting(request: Any, tree: dict[str, Any]) -> list[Event]:
        return [
            replace(event, values={**event.values, "autotune/data_wait_s": 0.3})
            if isinstance(event, MetricRow)
            else event
            for event in synthetic_verl(request, tree)
        ]

    overrides = {"data.dataloader_num_workers": 2}
    for switch, told in ((True, 1), (False, 0)):
        job = job_of(tmp_path / str(switch), extensions={"input_pipeline": switch})
        job = job.model_copy(
            update={"verl": job.verl.model_copy(update={"overrides": {**job.verl.overrides, **overrides}})}
        )
        with rig(_survivor(waiting), job=job) as one:
            run_ladder(one.services, one.controller, [StageName.SURVIVE])
            warnings = one.store.trials()[-1].verdict.warnings
        found = [w for w in warnings if "try data.dataloader_num_workers=4 (it is 2)" in w]
        assert len(found) == told


def _survivor(script: Any) -> Any:
    """The script with a micro batch that fits, whatever is tried."""
    micro = "ppo_micro_batch_size_per_gpu"

    def fitting(request: Any, tree: dict[str, Any]) -> list[Event]:
        tree["actor_rollout_ref"]["actor"][micro] = 8
        events: list[Event] = script(request, tree)
        return events

    return fitting
