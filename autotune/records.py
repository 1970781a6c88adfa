"""The frozen values that every room speaks: candidates, what an attempt reports, what was made of it.

Nothing here acts, reads a file or imports an engine. Times named `at_s` are seconds since the
attempt's verl process was started, measured on the node that runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Union

Value = Union[bool, int, float, str, None, list["Value"], dict[str, "Value"]]
"""One value of a verl configuration, as YAML has it."""

Overrides = Mapping[str, Value]
"""verl's dotted keys, verbatim, to values; laid over verl's own defaults."""


class StageName(str, Enum):
    """The rungs of the ladder in climbing order, and the confirmation of what they found."""

    SURVIVE = "survive"
    SPEED = "speed"
    QUALITY = "quality"
    FINISH = "finish"
    """Searches nothing: winner and user's own configuration again, with fresh seeds."""


RUNGS = (StageName.SURVIVE, StageName.SPEED, StageName.QUALITY)
"""The stages that search."""


class AttemptRole(str, Enum):
    """What an attempt of a trial is for."""

    MEASURE = "measure"
    """The stage's ordinary steps."""
    CERTIFICATE = "certificate"
    """Survive's proof: full steps with the longest prompts, every response at its limit."""


class AttemptState(str, Enum):
    """What the cluster knows of an attempt. STARTING -> RUNNING -> ENDED | LOST."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"
    """The controller or the node died while it ran; its processes were ended afterwards."""


class Outcome(str, Enum):
    """What became of a trial."""

    COMPLETED = "completed"
    """All asked steps, with finite figures."""
    FAILED = "failed"
    """The candidate's own fault: OOM, NaN, hang, KL drift...; teaches the sampler."""
    REJECTED = "rejected"
    """Refused before launch by verl's validation or by a constraint; cost nothing."""
    INFRASTRUCTURE = "infrastructure"
    """The machine's fault, retries used up; teaches nothing."""
    USER_FAULT = "user_fault"
    """The user's code or data; stops the study."""
    ENDED_EARLY = "ended_early"
    """It could not win any more, so its devices went to others: no fault of the candidate."""
    STOPPED = "stopped"
    """Ended from outside (Ctrl-C, budget); teaches nothing."""


class FailureGroup(str, Enum):
    """Who is at fault decides what happens next (retry, teach, stop)."""

    CANDIDATE = "candidate"
    INFRASTRUCTURE = "infrastructure"
    USER = "user"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One configuration to try in a stage."""

    params: Overrides
    """The values of the stage's search space, keyed by verl's dotted names."""
    origin: str
    """Who proposed it, for people: `user configuration`, `repair of #0: ...`, `sampler`."""
    diagnosis: str = ""
    """What the curve that it answers showed, with the figure; empty where no curve was read."""
    reason: str = ""
    """Why this change should help against the diagnosis."""


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One step's line of verl's metrics file. None is a NaN or Inf: verl writes both as null."""

    step: int
    at_s: float
    values: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class PhaseMark:
    """verl entered a phase: a start-up milestone (log) or a part of a step (phase marks)."""

    phase: str
    """A name of `judge.phases.PHASES`."""
    at_s: float


@dataclass(frozen=True, kw_only=True)
class MemorySample:
    """Memory of the trial's own processes on one device; the peak since the last sample."""

    at_s: float
    phase: str
    device: str
    """`gpu:0` by NVML index or UUID; `rank:0` where a capped CPU worker stands for a device."""
    used_gb: float
    capacity_gb: float
    """Device memory, or the CPU worker's cap. 0 where unknown."""
    host_gb: float = 0.0
    """Resident memory of the trial's whole process tree."""


@dataclass(frozen=True, kw_only=True)
class LogEvidence:
    """A console line that says why something went wrong."""

    line_number: int
    """1-based, in the attempt's console log."""
    text: str
    """Without colours and Ray prefix, at most 500 characters."""
    kind: str
    """The failure kind that this line alone would mean."""
    phase: str
    """Phase of the failing call where the surrounding lines name it, else the current one."""
    level: int
    """Matching level of the failure taxonomy: a lower number wins over a higher one."""
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A sign of life: new console output in the current phase."""

    at_s: float
    lines: int


@dataclass(frozen=True, kw_only=True)
class GuardStop:
    """A guard's decision to end an attempt, with its reason."""

    kind: str
    phase: str
    reason: str
    """One sentence with the figure and the limit."""
    at_s: float


@dataclass(frozen=True, kw_only=True)
class AttemptEnd:
    """How an attempt's processes ended."""

    at_s: float
    exit_code: int | None
    """None where verl had to be killed or nothing could be learned."""
    asked: bool
    """True where the controller asked for the end (guard, Ctrl-C, budget)."""
    clean_up_s: float = 0.0
    """From the request (or verl's own exit) until nothing of the process tree was left."""
    left_behind: tuple[int, ...] = ()
    """Pids that could not be ended; empty is the proof that the devices are free."""
    tail: tuple[str, ...] = ()
    """The last console lines."""
    lost: bool = False
    """True where the runner or node vanished."""
    session: str = ""
    """Id of the warm session that it ran in; empty for a process of its own."""
    session_number: int = 0
    """Candidates that its session had run before it."""
    session_over: bool = False
    """True where its session takes no further candidate."""


Event = Union[MetricRow, PhaseMark, MemorySample, LogEvidence, Progress, GuardStop, AttemptEnd]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a trial did not complete."""

    kind: str
    """A name of the failure taxonomy, e.g. `oom_gpu_actor_update`."""
    group: FailureGroup
    phase: str
    cause: str
    """One sentence for people."""
    line_number: int | None = None
    line: str = ""
    """The decisive console line; empty where figures or silence decided."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What an attempt measured. None where it did not get that far or verl does not log it."""

    steps: int = 0
    """Steps whose metric row arrived."""
    steps_asked: int = 0
    peak_memory_frac: float | None = None
    """Largest used/capacity over devices and phases."""
    peak_memory_gb: float | None = None
    peak_memory_phase: str = ""
    peak_by_phase_frac: Mapping[str, float] = field(default_factory=dict)
    tokens_per_s_per_gpu: float | None = None
    """Median of perf/throughput over the steady steps."""
    tokens_per_s_noise_frac: float | None = None
    """Relative spread (1.4826 x MAD / median) of the steady steps."""
    step_s: float | None = None
    """Median time of a steady step."""
    reward: float | None = None
    """Mean of critic/rewards/mean over the last quarter of the steps (at least 3)."""
    tokens_per_s_half_width: float | None = None
    """Half of the 95 % interval of tokens_per_s_per_gpu, from the scatter of this run's steps alone."""
    reward_std: float | None = None
    """Standard deviation of the step rewards about their own trend."""
    reward_half_width: float | None = None
    """Half of the 95 % interval of reward, from the scatter of this run's steps alone."""
    kl: float | None = None
    """Mean of the guard's KL metric over the same last steps."""
    kl_estimator: str = ""
    """Which estimate of the KL `kl` is: `k1`, `k2`, `k3` or `abs`; empty where not known."""
    validation_reward: float | None = None
    """On data.val_files, at the end; None where the stage does not validate."""
    entropy: float | None = None
    """Mean of actor/entropy over the same last steps."""
    truncated_frac: float | None = None
    """Share of the last responses that were cut off at the limit."""
    no_variance_frac: float | None = None
    """Share of the last groups whose responses all earned the same: they teach nothing."""
    probability_gap: float | None = None
    """Mean difference between the rollout's and the trainer's token probabilities, last steps."""
    response_tokens: float | None = None
    start_s: float | None = None
    """From launch to the first step's beginning."""
    warmup_steps: int | None = None
    """Leading steps left out of times and throughput."""

    @property
    def reward_std_degrees(self) -> int:
        """Degrees of freedom of `reward_std`: a trend of two parameters was taken from the steps."""
        return max(self.steps - 2, 0)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the judge made of one attempt, or of a whole trial."""

    outcome: Outcome
    figures: Figures
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    """What a person should know though it did not decide (clipped responses, noise...)."""
    signs: tuple[str, ...] = ()
    """Names of `judge.signs.SignName`, told in full among the warnings; stage quality answers them."""
    reason: str = ""
    """Why it was ended early, in one sentence; empty for every other outcome."""


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """How a stage ended; written once, read by the next stage, the export and the report."""

    stage: StageName
    trials: int
    """Trials told, of any outcome."""
    accepted: tuple[int, ...]
    """Numbers of the accepted trials, best first."""
    acceptance_met: bool
    best: int | None
    """Number of the best trial, accepted or not; None where nothing is feasible."""
    statement: str
    """One sentence with the figures and the limits, for people."""
    baseline: Figures | None = None
    """What the gain is measured against; None for survive."""
    best_figures: Figures | None = None
    overrides: Overrides = field(default_factory=dict)
    """The best configuration over the job's own: params of this and all earlier stages."""


class Arm(str, Enum):
    """Which configuration a run of the finish is of; also the origin of its candidate."""

    OWN = "user configuration"
    SURVIVOR = "survivor"
    """Stands in where the user's own configuration does not survive."""
    WINNER = "winner"


class FinishOutcome(str, Enum):
    """What the finish can say of the winner."""

    BETTER = "better"
    NOT_BETTER = "not better"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class FinishPlan:
    """What is settled before the first confirming run, so that no look at results can change it."""

    pairs: int
    """Largest number of pairs of runs that decide: winner and reference, each pair on a seed of its own."""
    looks: tuple[int, ...]
    """Numbers of complete pairs at which a verdict may be given; the last is `pairs`."""
    alphas: tuple[float, ...]
    """Share of 1 - confidence that each look may spend; they add up to it."""
    after: tuple[int, ...] = ()
    """Pairs that each look, where it says `better`, has run after it to measure the gain; missing: none."""
    least_gain_frac: float
    """Relative gain below which a difference does not matter."""
    goals: tuple[str, ...]
    """Metrics of which the winner has to gain in one: those that this job's stages searched for."""
    seeds: tuple[int, ...]
    """Of each pair; none was used in tuning."""
    steps: int
    validation: bool
    """Whether each run validates after its last step."""
    winner: Overrides
    """Over the job's own configuration; what is exported."""
    survivor: Overrides | None
    """None where the stage survive found what is the winner too, or nothing."""
    is_own: bool = False
    """The winner is the user's own configuration: there is nothing to run."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The winner against the reference in one metric, over pairs of runs with the same seed."""

    metric: str
    """`tokens_per_s_per_gpu`, `reward`, `validation_reward` or `peak_memory_gb`."""
    gain: float
    """A fraction for tokens/s (0.3: 1.3 times as fast), else a difference in the metric's unit."""
    low: float
    high: float
    """The interval of `gain`, widened to hold what is claimed."""
    claimed: float
    """What is said of `gain` where it is called better: less its share of luck, never below 0."""
    reference: float
    """Mean of the reference's runs."""
    winner: float
    """Mean of the winner's runs."""
    outcome: FinishOutcome
    """Of this metric alone; less memory is better."""


@dataclass(frozen=True, kw_only=True)
class FinishVerdict:
    """The honest word on the winner: cold runs on stock verl with fresh seeds, in alternating order."""

    outcome: FinishOutcome
    statement: str
    """One sentence for people."""
    winner: Overrides
    """Which configuration this verdict is on."""
    reference: Arm | None
    """What the winner was compared with; None where nothing could be."""
    own_failure: str = ""
    """Why the user's own configuration did not survive; empty where it did."""
    comparisons: tuple[Comparison, ...] = ()
    pairs: int = 0
    """Pairs that decided."""
    pairs_planned: int = 0
    pairs_after: int = 0
    """Pairs that were run after the decision, only to measure the gain."""
    confidence: float = 0.95
    """Chance that no goal is called better at any look where nothing differs."""
    seeds: tuple[int, ...] = ()
    steps: int = 0
    notes: tuple[str, ...] = ()
    """What a person should know besides: machine drift, missing validation..."""
