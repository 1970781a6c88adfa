"""A made-up study of any size in a real database: a ladder of an 8-GPU job as `autotune run` stores it."""

from __future__ import annotations

import math
import random
from pathlib import Path

from autotune.clock import ManualClock
from autotune.job.model import Job
from autotune.judge.evidence import Evidence
from autotune.judge.figures import figures
from autotune.records import (
    Arm,
    AttemptEnd,
    AttemptRole,
    Candidate,
    Comparison,
    Failure,
    FailureGroup,
    FinishOutcome,
    FinishPlan,
    FinishVerdict,
    MemorySample,
    MetricRow,
    Outcome,
    StageName,
    StageResult,
    Verdict,
)
from autotune.store.store import Store
from tests.controller.conftest import LR, MICRO_BATCH, SEQUENCES, job_of

GPUS = 8
KL = "actor/kl_loss"
LINE = (
    "torch.OutOfMemoryError: CUDA out of memory. <b>Tried</b> to allocate 18.54 GiB. GPU 3 has 2.1 GiB free."
)
PROVENANCE = {
    "versions": {
        "verl-autotune": "0.1.0",
        "verl": "0.9.1",
        "torch": "2.8.0",
        "vllm": "0.11.0",
        "ray": "2.49.0",
    },
    "python": "3.11.9",
    "cpu_count": 112,
    "memory_gb": 2015.4,
    "gpus": ["NVIDIA H100 80GB HBM3 (80 GB)"] * GPUS,
    "driver": "570.86.15",
    "commit": "3a274601a2aa61358db8a6f008fe42a72cb8a060",
    "seeds": {"survive": 0, "speed": 0, "quality": 0},
}


def study_job(results: Path) -> Job:
    """Three stages on eight GPUs."""
    return job_of(results, name="qwen2-7b-grpo", resources={"device": "gpu", "gpus_per_trial": GPUS})


class StudyBuilder:
    """Adds trials one after the other, as a controller would."""

    def __init__(self, store: Store, clock: ManualClock, seed: int = 0) -> None:
        self.store, self.clock, self.random = store, clock, random.Random(seed)
        self.carried: dict[str, object] = {}

    def fail(
        self, stage, number, params, origin, *, kind="oom_gpu_actor_update", phase="update_actor", steps=0
    ):
        """A trial that a failure of the candidate's ended, after `steps` steps at 1,000 tokens/s."""
        rows = self._rows(steps, tokens_per_s=1000.0, reward=(0.3, 0.3), kl=0.01)
        evidence = self._evidence(rows, peak=0.981, failed=phase)
        failure = Failure(
            kind=kind,
            group=FailureGroup.CANDIDATE,
            phase=phase,
            cause="Device memory ran out in the actor's update."
            if kind.startswith("oom")
            else "KL passed 0.5.",
            line_number=1216 if kind.startswith("oom") else None,
            line=LINE if kind.startswith("oom") else "",
        )
        measured = figures(evidence, steps_asked=20, warmup_steps=1, kl_metric=KL)
        verdict = Verdict(outcome=Outcome.FAILED, figures=measured, failure=failure)
        return self._add(stage, number, params, origin, evidence, verdict, None)

    def complete(
        self,
        stage,
        number,
        params,
        origin,
        *,
        tokens_per_s=1000.0,
        reward=(0.3, 0.4),
        kl=0.02,
        peak=0.71,
        accepted=False,
        steps=20,
        split=None,
    ):
        """A trial that ran all its steps; `split` sets seconds of single timers."""
        rows = self._rows(steps, tokens_per_s, reward, kl, split or {})
        evidence = self._evidence(rows, peak=peak)
        measured = figures(evidence, steps_asked=steps, warmup_steps=1, kl_metric=KL)
        verdict = Verdict(outcome=Outcome.COMPLETED, figures=measured)
        objective = {
            StageName.SURVIVE: 1.0 + 1.0 - peak,
            StageName.SPEED: measured.tokens_per_s_per_gpu,
            StageName.QUALITY: measured.reward,
        }.get(stage)
        return self._add(stage, number, params, origin, evidence, verdict, objective, accepted=accepted)

    def run(self, stage, number, params, origin):
        """A trial that is still in the air, without a step."""
        return self._add(stage, number, params, origin, Evidence(), None, None)

    def end(self, stage, best, *, met, baseline=None, statement="", accepted=()):
        """The stage's result, handing on the best trial's parameters."""
        trial = self.store.trial(stage, best) if best is not None else None
        if trial is not None:
            self.carried = {**self.carried, **trial.candidate.params}
        result = StageResult(
            stage=stage,
            trials=len(self.store.trials(stage)),
            accepted=accepted,
            acceptance_met=met,
            best=best,
            statement=statement,
            baseline=baseline,
            best_figures=trial.verdict.figures if trial and trial.verdict else None,
            overrides=self.carried,
        )
        self.store.end_stage(result, self.clock.utc_now())

    def _rows(self, steps, tokens_per_s, reward, kl, split=None):
        low, high = reward
        rows = []
        for step in range(1, steps + 1):
            share = step / max(steps, 1)
            step_s = 400_000 / (tokens_per_s * GPUS) * (4.0 if step == 1 else 1.0)
            timers = {
                "gen": 0.45,
                "old_log_prob": 0.13,
                "ref": 0.1,
                "update_actor": 0.24,
                "update_weights": 0.03,
            }
            values = {
                "critic/rewards/mean": low
                + (high - low) * (1 - math.exp(-3 * share))
                + self.random.gauss(0, 0.004),
                KL: kl * share**1.4,
                "perf/throughput": 400_000 / step_s / GPUS * self.random.gauss(1, 0.01),
                "perf/time_per_step": step_s,
                "perf/total_num_tokens": 400_000.0,
                "timing_s/step": step_s,
                "timing_s/adv": 0.1,
                "timing_s/testing": 30.0,
                **{f"timing_s/{name}": part * step_s for name, part in {**timers, **(split or {})}.items()},
            }
            rows.append(MetricRow(step=step, at_s=120.0 + step * step_s, values=values))
        return rows

    def _evidence(self, rows, *, peak, failed=""):
        parts = {
            "model_load": 0.3,
            "rollout_start": 0.55,
            "rollout": 0.9,
            "old_log_prob": 0.82,
            "ref_log_prob": 0.74,
            "update_actor": 1.0,
            "weight_sync": 0.86,
        }
        samples = []
        for phase, part in parts.items():
            samples.append(
                MemorySample(
                    at_s=60.0, phase=phase, device="gpu:0", used_gb=80 * peak * part, capacity_gb=80.0
                )
            )
            if phase == failed:
                break
        return Evidence.from_events([*samples, *rows])

    def _add(self, stage, number, params, origin, evidence, verdict, objective, *, accepted=False):
        now = self.clock.utc_now
        overrides = {**self.carried, **params}
        trial_id = self.store.add_trial(
            stage, number, Candidate(params=params, origin=origin), overrides, now()
        )
        attempt_id = f"{stage.value}{number}"
        self.store.start_attempt(
            trial_id,
            attempt_id=attempt_id,
            index=0,
            role=AttemptRole.MEASURE,
            folder=attempt_id,
            at_utc=now(),
            devices=GPUS,
        )
        if evidence.rows:
            self.store.add_events(attempt_id, evidence.rows, now())
        if verdict is None:
            self.store.attempt_is_running(attempt_id, now())
            return trial_id
        self.clock.advance_s(300)
        end = AttemptEnd(at_s=300.0, exit_code=0, asked=False)
        self.store.end_attempt(attempt_id, end=end, verdict=verdict, device_s=300.0 * GPUS, at_utc=now())
        self.store.end_trial(
            trial_id,
            verdict=verdict,
            objective=objective,
            accepted=accepted,
            pruned=verdict.outcome is Outcome.FAILED,
            at_utc=now(),
        )
        self.store.add_wall_s(300)
        return trial_id


OWN = {MICRO_BATCH: 64}
SAFE = {MICRO_BATCH: 8}
START = {MICRO_BATCH: 8, SEQUENCES: 16}


def survive(study: StudyBuilder) -> None:
    """The user's configuration runs out of memory, its repair survives."""
    stage = StageName.SURVIVE
    study.fail(stage, 0, OWN, "user configuration")
    study.complete(
        stage,
        1,
        SAFE,
        f"repair of #0 (oom_gpu_actor_update): {MICRO_BATCH} 64 -> 8",
        peak=0.74,
        accepted=True,
    )
    study.end(
        stage,
        1,
        met=True,
        accepted=(1,),
        statement="acceptance met by #1: 20 of 20 steps with finite reward; peak memory 74% of the device in update_actor (limit 80%)",
    )


def speed(study: StudyBuilder, sampled: int = 3) -> None:
    """The survivor twice, four single changes, then the sampler; the best reaches about 1.42x."""
    stage = StageName.SPEED
    for number, tokens_per_s in enumerate((1000.0, 1040.0)):
        study.complete(stage, number, START, "survivor, repeated", tokens_per_s=tokens_per_s)
    change = "one change from #{}: {} {} -> {}"
    study.complete(
        stage,
        2,
        {**START, MICRO_BATCH: 16},
        change.format(1, MICRO_BATCH, 8, 16),
        tokens_per_s=1180.0,
        peak=0.77,
    )
    study.complete(
        stage,
        3,
        {**START, MICRO_BATCH: 16, SEQUENCES: 64},
        change.format(2, SEQUENCES, 16, 64),
        tokens_per_s=1450.0,
        peak=0.78,
        accepted=True,
        split={"gen": 0.3},
    )
    study.fail(stage, 4, {MICRO_BATCH: 32, SEQUENCES: 64}, change.format(3, MICRO_BATCH, 16, 32), steps=3)
    study.complete(
        stage,
        5,
        {**START, SEQUENCES: 16, MICRO_BATCH: 4},
        change.format(1, MICRO_BATCH, 8, 4),
        tokens_per_s=1010.0,
    )
    for index in range(sampled):
        params = {MICRO_BATCH: study.random.choice([4, 8, 16, 32]), SEQUENCES: study.random.choice([16, 64])}
        if params[MICRO_BATCH] == 32:
            study.fail(stage, 6 + index, params, "sampler", steps=2)
        else:
            study.complete(
                stage, 6 + index, params, "sampler", tokens_per_s=study.random.uniform(850, 1300), steps=6
            )
    baseline = study.store.trial(stage, 0).verdict.figures
    study.end(
        stage,
        3,
        met=True,
        accepted=(3,),
        baseline=baseline,
        statement="acceptance met by #3: 20 of 20 steps with finite reward; peak memory 78% of the device in update_actor (limit 80%); 1.42x the survivor's tokens/s/GPU (wanted 1.3x)",
    )


def quality(study: StudyBuilder, sampled: int = 4, steps: int = 60) -> None:
    """A timid baseline and moves from its curve; the best misses the wanted gain, as some do."""
    stage = StageName.QUALITY
    study.complete(
        stage,
        0,
        {LR: 1e-6},
        "fastest configuration, as baseline",
        reward=(0.3, 0.5),
        kl=0.012,
        tokens_per_s=1450.0,
        steps=steps,
    )
    study.complete(
        stage,
        1,
        {LR: 3e-6},
        f"curve of #0 (rises slowly): {LR} 1e-06 -> 3e-06",
        reward=(0.3, 0.56),
        kl=0.08,
        tokens_per_s=1450.0,
        steps=steps,
    )
    study.fail(
        stage,
        2,
        {LR: 3e-5},
        f"curve of #1 (rises slowly): {LR} 3e-06 -> 3e-05",
        kind="kl_drift",
        steps=steps // 3,
    )
    for index in range(sampled):
        lr = 10 ** study.random.uniform(-7, -5)
        study.complete(
            stage,
            3 + index,
            {LR: lr},
            "sampler",
            reward=(0.3, 0.35 + 0.15 * study.random.random()),
            kl=lr * 2e4,
            tokens_per_s=1440.0,
            steps=steps,
        )
    baseline = study.store.trial(stage, 0).verdict.figures
    study.end(
        stage,
        1,
        met=False,
        baseline=baseline,
        statement="acceptance not met by #1: KL 0.072 (band 0.05..0.12); reward 0.541 (wanted 0.560, was 0.487)",
    )


def finish_verdict(winner) -> FinishVerdict:
    """Three pairs against the user's own configuration: faster, no clear reward, less memory."""

    def told(metric, gain, low, high, outcome, **means):
        return Comparison(
            metric=metric, gain=gain, low=low, high=high, claimed=gain - 0.01, outcome=outcome, **means
        )

    return FinishVerdict(
        outcome=FinishOutcome.BETTER,
        statement="better: tokens/s +31.0 % [+25.0, +39.0]; compared with the user's own configuration "
        "over 3 pairs of cold runs",
        winner=winner,
        reference=Arm.OWN,
        comparisons=(
            told(
                "tokens_per_s_per_gpu",
                0.32,
                0.25,
                0.39,
                FinishOutcome.BETTER,
                reference=1000.0,
                winner=1320.0,
            ),
            told("reward", 0.01, -0.02, 0.04, FinishOutcome.INCONCLUSIVE, reference=0.5, winner=0.51),
            told("peak_memory_gb", -1.2, -1.5, -0.9, FinishOutcome.BETTER, reference=60.0, winner=58.8),
        ),
        pairs=3,
        pairs_planned=6,
        seeds=(101, 102, 103),
        steps=20,
        notes=("no validation data",),
    )


def finish_runs(study: StudyBuilder, pairs: int = 3) -> None:
    """The finish of the quality stage's best: runs in pairs, and the verdict."""
    winner = study.store.stage_results()[StageName.QUALITY].overrides
    plan = FinishPlan(
        pairs=2 * pairs,
        looks=(pairs, 2 * pairs),
        alphas=(0.0125, 0.0375),
        least_gain_frac=0.02,
        goals=("tokens_per_s_per_gpu",),
        seeds=tuple(range(101, 101 + 2 * pairs)),
        steps=20,
        validation=False,
        winner=winner,
        survivor=SAFE,
    )
    study.store.plan_finish(plan, study.clock.utc_now())
    for number in range(2 * pairs):
        arm = (Arm.OWN, Arm.WINNER)[number % 2]
        study.complete(
            StageName.FINISH,
            number,
            {"data.seed": 101 + number // 2},
            arm.value,
            tokens_per_s=1000.0 if arm is Arm.OWN else 1320.0,
        )
    study.store.end_finish(finish_verdict(winner), study.clock.utc_now())


def fill_study(
    store: Store, clock: ManualClock, job: Job, *, sampled: int = 4, steps: int = 60
) -> StudyBuilder:
    """The whole ladder; `sampled` trials of the sampler in speed and as many in quality."""
    store.set_provenance({**PROVENANCE, "job": job.model_dump_json()})
    study = StudyBuilder(store, clock)
    survive(study)
    speed(study, sampled)
    quality(study, sampled, steps)
    return study
