"""What a job file asks for, typed. `job/loading.py` reads it; every default here is the documented one."""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field, JsonValue, field_serializer, field_validator, model_validator

from autotune.job.outside import MirrorSection, NotifySection
from autotune.job.secrets import withheld
from autotune.job.section import JOB_NAME, Count, Fraction, Positive, Section, refused
from autotune.job.space import SearchSpace
from autotune.records import RUNGS, FinishPlan, StageName


class VerlSection(Section):
    """The user's own verl run, as it is launched today."""

    entry: str = "verl.trainer.main_ppo"
    """Python module that is started with `python -m`."""
    config_path: str | None = None
    """Folder of `config_name` where it is not verl's own; from the working directory, else the job's."""
    config_name: str = "ppo_trainer"
    """Hydra's primary configuration."""
    overrides: dict[str, JsonValue]
    """verl's dotted keys to values; a leading `+` says that verl's defaults lack the key."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Extra environment variables of the verl process; the secret ones are never written down."""

    @field_serializer("environment")
    def _without_secret_values(self, environment: dict[str, str]) -> dict[str, str]:
        return withheld(environment)


class CpuSection(Section):
    """How a trial runs where there is no GPU (`device: cpu`)."""

    worker_memory_cap_gb: Positive | None = None
    """What one training worker may allocate beyond its size at start; stands in for device memory."""
    replay_poll_s: Positive | None = None
    """Pause between looks into verl's replay buffer; None: its own 2 s, too long for tiny trials."""
    ray_cpus: Count = 32
    """Logical CPUs of the trial's private Ray; verl hangs in silence with too few."""
    threads: Count = 2
    """OMP threads of each worker."""
    kv_cache_gb: Count = 1
    """VLLM_CPU_KVCACHE_SPACE."""


class ResourceSection(Section):
    """What one trial holds, and where."""

    device: Literal["gpu", "cpu"] = "gpu"
    gpus_per_trial: Count = 1
    """GPUs of one trial on one node (verl's trainer.n_gpus_per_node); on CPU: data-parallel ranks.

    A search space may vary trainer.n_gpus_per_node; this is then the size of the user's own run.
    """
    trials_at_once: Count | None = None
    """None: as many as the free GPUs allow; on CPU: 1, and `gpus_per_trial` ranks for each."""
    batch: Count | None = None
    """Candidates that may be open before one of them starts, so that a warm session finds one of its cold
    key; only where the space has cold keys. None: 3; 1: each starts as it is proposed."""
    ray_address: str | None = None
    """Cluster to join. None: RAY_ADDRESS if set, else a local one is started."""
    python: str | None = None
    """Interpreter of the verl environment; None: the one that runs autotune."""
    warm_sessions: bool = True
    """Candidates that differ in live settings only share one verl process, where verl's version allows it."""
    cpu: CpuSection = CpuSection()


class BudgetSection(Section):
    """What the whole job may cost. Whatever runs out first stops it, resumable."""

    gpu_hours: Positive | None = None
    """Device hours over all attempts (CPU: slot hours)."""
    trials: Count | None = None
    wall_hours: Positive | None = None
    """Since the first start of the job, summed over resumptions."""


class GuardSection(Section):
    """When a running trial is ended early. Each limit names its unit."""

    kl_metric: str = "actor/kl_loss"
    """`actor/ppo_kl` is 0 with one update a batch, so it is refused here."""
    kl_limit: Positive | None = None
    """None: no KL guard."""
    kl_steps: Count = 2
    """Consecutive steps over the limit that end the trial."""
    nan_reward_steps: Count = 1
    """Consecutive steps with a NaN or Inf reward."""
    nan_gradient_steps: Count = 2
    """Consecutive steps with a non-finite gradient norm; verl itself only skips the update."""
    zero_reward_steps: Count | None = None
    """Consecutive steps whose best reward is exactly 0; None: not watched."""
    entropy_limit: Positive | None = None
    """actor/entropy over this ends the trial; None: not watched."""
    start_silence_s: Positive = 600.0
    """No sign of life before the first step."""
    step_silence_s: Positive = 900.0
    """No sign of life inside a step, until steps of this trial are known."""
    step_silence_factor: Positive = 10.0
    """Afterwards: this many times the trial's slowest steady step, within 30 s and `step_silence_s`."""
    wall_limit_s: Positive = 7200.0
    """Longest life of one attempt."""
    memory_growth_frac_per_step: Positive | None = None
    """Idle memory growing by more than this share of the device per step, over at least 5 steps."""

    @field_validator("kl_metric")
    @classmethod
    def _kl_metric_measures_drift(cls, kl_metric: str) -> str:
        if kl_metric == "actor/ppo_kl":
            raise refused(
                found="actor/ppo_kl, which verl reports as 0 with one update a batch",
                allowed="actor/kl_loss (with use_kl_loss) or actor/reward_kl_penalty (with use_kl_in_reward)",
                next_step="take actor/kl_loss",
            )
        return kl_metric


class ExtensionSection(Section):
    """Opt-in changes to verl itself, by autotune's plugin; jobs/extensions.md says what each is worth."""

    length_bucketing: Union[bool, Literal["search"]] = False
    """Fixed-size micro batches hold samples of similar length. `search`: stage speed finds out."""
    adaptive_clipping: Positive | None = None
    """Gradients are clipped unit by unit at this share of their weights' norm (0.01 is usual)."""
    input_pipeline: Union[bool, Literal["search"]] = False
    """Warns where steps wait for prompts (needs `load_monitor`). `search`: stage speed tries
    data.dataloader_num_workers too."""
    token_check: bool = False
    """Compares ids and masks of the first step's samples with the chat template."""


class Certificate(Section):
    """Survive's proof of the worst case."""

    steps: Annotated[int, Field(ge=2)] = 2
    """Full steps with the longest prompts and every response at its limit."""


class StageSection(Section):
    """What all stages have in common."""

    search_space: SearchSpace
    steps: Count
    """Optimizer steps of one trial, the warm-up step included."""
    trials: Count
    """Largest number of trials of this stage."""
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    """Leading steps that are not measured; None: found in each trial's step times."""
    seed: int = 0
    """Of the sampler and, through `data.seed`, of the trials."""
    overrides: dict[str, JsonValue] = Field(default_factory=dict)
    """Fixed for this stage only, over the job's own; not exported."""
    peak_memory_frac: Fraction = 0.80
    """Largest share of device memory that is accepted."""

    @model_validator(mode="after")
    def _something_is_measured(self) -> StageSection:
        if self.warmup_steps is not None and self.warmup_steps >= self.steps:
            raise refused(
                found=f"{self.warmup_steps} of {self.steps} steps",
                allowed="fewer warm-up steps than steps",
                within=("warmup_steps",),
                next_step="raise `steps`, or lower `warmup_steps`",
            )
        return self


class SurviveStage(StageSection):
    """Find configurations that run."""

    certificate: Certificate | None = Certificate()
    accepted_wanted: Count = 1
    """The stage ends once so many configurations were accepted."""


class SpeedStage(StageSection):
    """Make it faster without changing what is learned."""

    baseline_repeats: Count = 2
    """Runs of the survivor that give the noise floor."""
    baseline_every: Count | None = 10
    """The survivor runs once more after each so many other trials, which shows a machine that drifts."""
    alone: bool | None = None
    """One trial at a time, so that none slows the other down. None: on CPU, where slots share the cores."""
    wanted_gain: Annotated[float, Field(ge=1.0)] = 1.30
    """Accepted at this many times the survivor's tokens/s/GPU."""
    reward_noise_factor: Positive = 2.0
    """The reward may be this many times as rough as the baseline's, never rougher."""
    end_early: bool = True
    """Ends a trial that cannot catch the fastest any more, given its own step noise."""
    patience: Count | None = 10
    """Sampled trials in a row without a gain over the noise that end the stage; None: all trials are used."""
    training_hours: Positive | None = None
    """Of the training to come: search goes on while an expected gain saves more of it than a trial takes."""


class QualityStage(StageSection):
    """Learn better at the speed already reached."""

    wanted_gain: Annotated[float, Field(ge=1.0)] = 1.15
    """Accepted at this many times the baseline's reward."""
    kl_band: Annotated[tuple[float, float], Field(strict=False)] = (0.05, 0.12)
    """KL to the reference policy at the end has to lie in it."""
    validate_every: Count | None = None
    """Steps between validations on data.val_files, the last step included; the stage then compares
    validation rewards. None: no validation, the training reward counts."""
    end_early: bool = True
    """Ends a trial whose reward lies behind, once short and final ranks were seen to agree in this study."""
    patience: Count | None = 10
    """Sampled trials in a row without a gain over the noise that end the stage; None: all trials are used."""
    training_hours: Positive | None = None
    """Of the training to come: search goes on while an expected gain saves more of it than a trial takes."""

    @field_validator("kl_band")
    @classmethod
    def _band_is_ordered(cls, kl_band: tuple[float, float]) -> tuple[float, float]:
        low, high = kl_band
        if not 0.0 <= low < high:
            raise refused(found=f"[{low:g}, {high:g}]", allowed="[low, high] with 0 <= low < high")
        return kl_band


class StageSections(Section):
    """The ladder of this job; a stage that is left out is not climbed."""

    survive: SurviveStage
    speed: SpeedStage | None = None
    quality: QualityStage | None = None


class FinishSection(Section):
    """Confirms the winner: it and the user's own configuration again, cold, on fresh seeds."""

    enabled: bool = True
    """Whether `autotune run` goes on with it after the last stage; `--stage finish` runs it in any case."""
    repeats: Annotated[int, Field(ge=2)] = 6
    """Largest number of runs of each of the two that decide; fewer where the budget has no room for so many.

    Two seldom decide anything: an interval over two pairs is 12.7 standard errors wide on each side.
    """
    repeats_after: Annotated[int, Field(ge=0)] = 3
    """Further runs of each, made only after the others have decided for the winner; they measure its gain.

    A gain that is told from the runs that decided flatters, the more so the weaker the decision was. With
    0 what luck added is only estimated.
    """
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.95
    """Of the intervals, over all looks and goals together."""
    least_gain_frac: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.02
    """A gain shown to be below this share is `not better`; a loss shown to be above it forbids `better`."""
    steps: Annotated[int, Field(ge=2)] | None = None
    """Optimizer steps of each run; None: as many as the last stage's."""
    validation: bool = True
    """Validate after the last step, so that rewards are compared on validation data too."""


class FinishStage(StageSection):
    """The finish as its runs see it; made from the stored plan, never read from a job file."""

    validation: bool = True
    """Whether each run validates after its last step."""

    @classmethod
    def of(cls, job: Job, plan: FinishPlan) -> FinishStage:
        """The section of `plan`, inside the memory limit of the job's last stage."""
        last = job.stage(job.stage_names()[-1])
        assert last is not None
        return cls(
            search_space=SearchSpace.model_construct(name="finish", parameters={}),
            steps=plan.steps,
            trials=2 * len(plan.seeds) + 1,
            peak_memory_frac=last.peak_memory_frac,
            validation=plan.validation,
        )


class StorageSection(Section):
    """Where results are kept."""

    url: str | None = None
    """SQLAlchemy URL; None: sqlite under `results`, named after the job."""
    results: str = "results"
    """Folder for databases and attempts, relative to the working directory."""


class Job(Section):
    """A whole job file."""

    name: Annotated[str, Field(pattern=JOB_NAME)]
    verl: VerlSection
    resources: ResourceSection = ResourceSection()
    budget: BudgetSection = BudgetSection()
    storage: StorageSection = StorageSection()
    guards: GuardSection = GuardSection()
    extensions: ExtensionSection = ExtensionSection()
    load_monitor: bool = True
    """Each trial writes what its ranks had to do (tokens, samples, micro batches, lengths) to rank_load.jsonl
    in its attempt's folder; the report draws it."""
    stages: StageSections
    finish: FinishSection = FinishSection()
    mirror: MirrorSection = MirrorSection()
    notify: NotifySection = NotifySection()

    def stage(self, name: StageName) -> StageSection | None:
        """The stage's section; None where the job leaves it out, and for the finish."""
        section: StageSection | None = getattr(self.stages, name.value, None)
        return section

    def stage_names(self) -> tuple[StageName, ...]:
        """The stages this job climbs, in order."""
        return tuple(name for name in RUNGS if self.stage(name) is not None)
