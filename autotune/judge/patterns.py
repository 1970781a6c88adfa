"""The signs of failure in a console line: a table in order of specificity, each with its level.

Two orders matter. Within one line the first matching row names the sign, so special texts stand
before general ones. Between lines the lower level wins, then the earlier line (`classify`).
Levels: 1 constraint texts, 2 KV cache too small, 3 memory not free at engine start, 4 device OOM,
5 host OOM, 6 ports, 7 cluster and the user's own inputs, 8 collectives and devices, 9 what is left
when only a wrapper speaks, 10 mere hints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from autotune.judge.kinds import FailureKind as K

CONSTRAINT, KV_CACHE, FREE_MEMORY, DEVICE_OOM, HOST_OOM = 1, 2, 3, 4, 5
PORT, CLUSTER, COLLECTIVE, LAST_RESORT, HINT = 6, 7, 8, 9, 10

Resolution = Literal["", "device_oom", "allocation", "thread", "host_oom", "collective", "engine"]


@dataclass(frozen=True)
class Sign:
    """A text that means a failure kind."""

    level: int
    kind: K
    pattern: re.Pattern[str]
    resolution: Resolution = ""
    """How the surrounding lines refine the kind; empty where the text alone decides."""
    phase: str = ""
    """Phase that the text itself names."""


def _sign(level: int, kind: K, *alternatives: str, resolution: Resolution = "", phase: str = "") -> Sign:
    return Sign(level, kind, re.compile("|".join(alternatives)), resolution, phase)


_COMPARES = "|".join(
    (
        "must|should|divisible|expected|exceed",
        "greater|larger|longer|smaller|less than|at least|at most|out of range",
        "only support|cannot be|mismatch|does not match|not equal",
    )
)

_KV_CACHE = _sign(
    KV_CACHE,
    K.OOM_GPU_ROLLOUT_INIT,
    r"(?i:no available memory for the cache blocks)",
    r"(?i:to serve at least one request with the model)",
    r"(?i:estimated maximum model length is \d+)",
    r"larger than the maximum number of tokens that can be stored in",
    r"Not enough memory\. Please try to increase --mem-fraction-static",
    phase="rollout_start",
)

_ENGINE_START = (
    _KV_CACHE,
    _sign(
        FREE_MEMORY,
        K.OOM_GPU_ROLLOUT_INIT,
        r"Free memory on device .*less than desired GPU memory utilization",
        phase="rollout_start",
    ),
)

# Host before device: Ray's host OOM error shares its name with torch's.
_MEMORY = (
    _sign(CLUSTER, K.SHM_OR_HOST_OOM, r"insufficient shared memory", r"[Bb]us error", r"SIGBUS"),
    _sign(
        HOST_OOM,
        K.OOM_HOST_RAM,
        r"due to the node running low on memory",
        r"exceeds the memory usage threshold",
        r"ray\.exceptions\.OutOfMemoryError",
        r"Out of memory: Killed process|Memory cgroup out of memory",
        r"\boom_kill\b|oom-kill:|invoked oom-killer|OOMKilled",
        r"DataLoader worker .*[Kk]illed",
        resolution="host_oom",
    ),
    _sign(
        DEVICE_OOM,
        K.OOM_GPU_ROLLOUT_INIT,
        r"out of memory occurred when warming up sampler",
        phase="rollout_start",
    ),
    _sign(
        DEVICE_OOM,
        K.OOM_UNATTRIBUTED,
        r"torch\.(?:cuda\.)?OutOfMemoryError",
        r"(?:CUDA|HIP|NPU|XPU)(?: [Ee]rror:)? out of memory",
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED",
        r"CUresult error: 2\b",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
        resolution="device_oom",
    ),
    _sign(
        DEVICE_OOM,
        K.OOM_UNATTRIBUTED,
        r"std::bad_alloc",
        r"^\s*(?:\w+\.)*_?(?:Array)?MemoryError\b",
        r"Cannot allocate memory",
        r"[Uu]nable to mmap",
        resolution="allocation",
    ),
)

_CLUSTER = (
    _sign(
        PORT,
        K.PORT_CONFLICT,
        r"EADDRINUSE",
        r"[Aa]ddress already in use",
        r"server socket has failed to listen",
    ),
    _sign(
        CLUSTER,
        K.SHM_OR_HOST_OOM,
        r"No space left on device.*/dev/shm|/dev/shm.*No space left on device",
        r"ObjectStoreFullError|object store is full",
        r"unable to open shared memory",
    ),
    _sign(
        CLUSTER,
        K.DISK_FULL,
        r"No space left on device",
        r"Disk quota exceeded",
        r"\[Errno (?:28|122)\]",
    ),
    _sign(CLUSTER, K.RAY_RESOURCES, r"Total available GPUs .*less than total desired GPUs"),
    _sign(
        CLUSTER,
        K.RAY_INIT,
        r"can't start new thread",
        r"pthread_create failed",
        r"Thread creation failed",
        resolution="thread",
    ),
    _sign(
        CLUSTER,
        K.RAY_INIT,
        r"Failed to register worker to Raylet",
        r"Unable to register worker with raylet",
        r"^(?!.*[Ww]aiting for).*register_center",
        r"[Ff]ailed to (?:connect to|start) (?:the )?(?:GCS|gcs_server)",
        r"The current node timed out during startup",
        r"Could not find any running Ray instance",
        r"ray\.exceptions\.RuntimeEnvSetupError",
    ),
)

_DEVICES = (
    _sign(COLLECTIVE, K.NCCL_TIMEOUT, r"last completed NCCL work: -1\b"),
    _sign(
        COLLECTIVE,
        K.NCCL_TIMEOUT,
        r"Watchdog caught collective operation timeout",
        r"Timed out waiting \d+ms for (?:send|recv) operation",
        resolution="collective",
    ),
    _sign(
        COLLECTIVE,
        K.NCCL_ERROR,
        r"NCCL (?:error|failure)",
        r"\bnccl(?:System|Internal|UnhandledCuda|Remote|InvalidUsage)Error",
    ),
    _sign(
        COLLECTIVE,
        K.CUDA_FAULT,
        r"CUDA error: (?!out of memory)",
        r"cudaError(?!MemoryAllocation)[A-Z]\w+",
        r"CUBLAS_STATUS_(?:EXECUTION_FAILED|NOT_INITIALIZED|INTERNAL_ERROR)",
        r"device-side assert triggered",
        r"illegal memory access",
        r"uncorrectable ECC|NVRM: Xid|fallen off the bus",
        r"CUDA driver (?:version|initialization)|No CUDA GPUs are available",
    ),
)

_CONSTRAINTS = (
    _sign(
        CONSTRAINT,
        K.DATA_LENGTH,
        r"[Pp]rompt (?:length )?.*(?:longer|exceeds?|larger) .*(?:model|context|prompt|sequence)[ _]len",
        r"sequence_length=\d+ is larger than max_length=\d+",
        r"maximum context length is \d+ tokens.*requested",
        phase="rollout",
    ),
    _sign(
        CONSTRAINT,
        K.TRAIN_INFER_MISMATCH,
        r"(?:Importance Sampling|rollout_is|rollout_corr\w*|\bTIS\b).*(?:requires?|needs?|must)",
    ),
    _sign(
        CONSTRAINT,
        K.CONFIG_VALIDATION,
        r"Could not override '",
        r"is not in struct",
        r"MissingMandatoryValue",
        r"Config(?:Attribute|Key)Error|(?:Config|Missing)\w*(?:Composition|Config)Exception",
        r"OverrideParseException|InstantiationException",
        r"\d+ validation errors? for",
        phase="config",
    ),
    _sign(
        CONSTRAINT,
        K.CONFIG_VALIDATION,
        rf"(?:ValueError|ValidationError|Value error)[:,] (?=.*(?:{_COMPARES}))(?:\D*\d+){{2}}",
        r"(?:ValueError|Value error)[:,] .*(?:max_(?:num_batched_tokens|model_len|num_seqs|token_len))",
        r"(?:ValueError|Value error)[:,] .*(?:(?:micro|mini|train)_batch_size|_parallel_size|ulysses)",
        r"AssertionError: (?!Torch not compiled)\S",
        r"(?:must|should) be (?:evenly )?(?:divisible by|larger than|greater than|smaller than|less than)",
        r"is too large to fit in the bucket",
        r"is smaller than max_model_len",
        r"\[(?:actor|critic|ref|rollout|data)\] Please set",
    ),
)

_USER = (
    _sign(
        CLUSTER,
        K.NETWORK,
        r"MaxRetryError|NameResolutionError|[Nn]ame resolution|Network is unreachable",
        r"[Cc]ouldn't connect to '?https?://",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|HfHubHTTPError",
        r"requests\.exceptions\.(?:Connection|ReadTimeout|SSL)",
    ),
    _sign(
        CLUSTER,
        K.TOKENIZER,
        r"(?:set|pass|requires?|need)[^'\"]*trust_remote_code",
        r"Can't load tokenizer",
        r"Tokenizer class \S+ does not exist",
        r"Unrecognized (?:configuration|model)|does not recognize this architecture",
        r"chat_template is not set|no chat template",
        r"Model architectures? .*not supported",
    ),
    _sign(
        CLUSTER,
        K.INPUT_MISSING,
        r"FileNotFoundError: (?!.*(?:/dev/shm|psm_|/tmp/ray|\.sock|session_))",
        r"is not a local folder and is not a valid",
        r"HFValidationError|Incorrect path_or_model_id|RepositoryNotFoundError|GatedRepoError",
        r"does not appear to have a file named",
        r"Unable to find .*\.(?:parquet|jsonl?)",
    ),
    _sign(
        CLUSTER,
        K.IMPORT_ERROR,
        r"^\s*(?:ModuleNotFoundError|ImportError): ",
        r"undefined symbol:",
        r"Torch not compiled with",
    ),
)

_LEFT_OVER = (
    _sign(
        LAST_RESORT,
        K.ROLLOUT_ERROR,
        r"EngineDeadError",
        r"EngineCore encountered (?:an issue|a fatal error)",
        r"EngineCore failed to start|EngineCore (?:process )?died",
        r"Worker failed with error",
        r"Scheduler hit an exception",
        resolution="engine",
    ),
    _sign(
        LAST_RESORT,
        K.RAY_ACTOR_DEATH,
        r"[Aa]ctor died unexpectedly",
        r"Worker exit type: SYSTEM_ERROR|Worker unexpectedly exits",
        r"worker died or was killed",
        r"Segmentation fault|SIGSEGV",
        r"actor is dead because its (?:node|owner|worker)",
    ),
    _sign(LAST_RESORT, K.DISK_FULL, r"is over 9\d% full, available space"),
    _sign(
        HINT,
        K.NAN_INF,
        r"grad_norm is not finite",
        r"(?i:loss is nan|contains? nan|nan (?:or inf )?detected)",
    ),
)

SIGNS: tuple[Sign, ...] = (
    *_ENGINE_START,
    *_MEMORY,
    *_CLUSTER,
    *_DEVICES,
    *_CONSTRAINTS,
    *_USER,
    *_LEFT_OVER,
)

_FREE_MEMORY = re.compile(r"Free memory on device .*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\)")


def sign_of(text: str) -> Sign | None:
    """The most specific sign in an undecorated line, or None."""
    return next((sign for sign in SIGNS if sign.pattern.search(text)), None)


def kv_cache_too_small(line: str) -> bool:
    """Whether the engine had too little room for its cache, so that giving it more helps."""
    return _KV_CACHE.pattern.search(line) is not None


def free_memory_gb(line: str) -> tuple[float, float] | None:
    """Free and total device memory (GiB) of vLLM's `Free memory on device` text, or None."""
    match = _FREE_MEMORY.search(line)
    return (float(match["free"]), float(match["total"])) if match else None
