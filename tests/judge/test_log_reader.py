"""Console lines to evidence: kinds, phases, levels, and what must not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.judge.log_reader import LogReader
from tests.judge.recorded import console_lines, evidence_of, kind_of

ALLOCATION = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB. GPU 0 has 79 GiB."
CPU_ALLOCATION = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory:"
    " you tried to allocate 14352384 bytes. Error code 12 (Cannot allocate memory)"
)
ACTOR_DEATH = [
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict",
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit"
    " detail: Worker unexpectedly exits with a connection error code 2. End of file. Some common causes"
    " include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop --force"
    " is called, (3) the worker crashed unexpectedly due to SIGSEGV.",
]


def remote(method: str, error: str = "RuntimeError", actor: str = "WorkerDict") -> str:
    return f"ray.exceptions.RayTaskError({error}): ray::{actor}.{method}() (pid=20931, ip=10.0.0.1)"


def frame(call: str, file: str = "verl/workers/engine_workers.py", source: str = "return x") -> list[str]:
    return [f'  File "/venv/{file}", line 704, in {call}', f"    {source}"]


@pytest.mark.parametrize(
    ("method", "kind", "phase"),
    [
        ("actor_rollout_ref_init_model", "oom_gpu_init", "model_load"),
        ("actor_rollout_ref_compute_log_prob", "oom_gpu_log_prob", "old_log_prob"),
        ("actor_rollout_ref_compute_ref_log_prob", "oom_gpu_log_prob", "ref_log_prob"),
        ("actor_rollout_ref_update_actor", "oom_gpu_actor_update", "update_actor"),
        ("critic_infer_batch", "oom_gpu_critic", "values"),
        ("critic_train_mini_batch", "oom_gpu_critic", "update_critic"),
        ("actor_rollout_ref_update_weights", "oom_gpu_rollout_wakeup", "weight_sync"),
        ("actor_rollout_ref_save_checkpoint", "oom_gpu_checkpoint", "checkpoint"),
        ("actor_rollout_generate_sequences", "oom_gpu_rollout_runtime", "rollout"),
    ],
)
@pytest.mark.parametrize("text", [ALLOCATION, CPU_ALLOCATION])
def test_the_remote_method_names_the_phase_of_an_allocation_failure(method, kind, phase, text):
    (found,) = evidence_of([remote("run", actor="TaskRunnerV1"), remote(method), *frame("forward"), text])
    assert (found.kind, found.phase, found.level) == (kind, phase, 4)


@pytest.mark.parametrize(
    ("calls", "text", "kind"),
    [
        (["update_policy", "backward"], ALLOCATION, "oom_gpu_actor_update"),
        (["compute_ref_log_prob", "compute_log_prob"], ALLOCATION, "oom_gpu_log_prob"),
        (["generate_sequences", "wake_up"], "CUDA Error: out of memory at cumem_allocator.cpp:62",
         "oom_gpu_rollout_wakeup"),
        (["launch_server", "determine_available_memory"], ALLOCATION, "oom_gpu_rollout_init"),
        (["_initialize_kv_caches"], "ValueError: No available memory for the cache blocks. Try increasing x.",
         "oom_gpu_rollout_init"),
        (["execute_model"], ALLOCATION, "oom_gpu_rollout_runtime"),
        (["forward"], ALLOCATION, "oom_unattributed"),
    ],
)  # fmt: skip
def test_frames_name_the_phase_where_no_remote_method_does(calls, text, kind):
    lines = ["Traceback (most recent call last):", *(line for call in calls for line in frame(call)), text]
    assert kind_of(lines) == kind


def test_the_sending_side_of_a_weight_transfer_has_its_own_kind():
    sender = frame("async_send_weights", file="verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py")
    assert kind_of([remote("actor_rollout_ref_update_weights"), *sender, ALLOCATION]) == "oom_gpu_weight_sync"


@pytest.mark.parametrize(
    "text", ["std::bad_alloc", "MemoryError", "OSError: [Errno 12] Cannot allocate memory"]
)
def test_other_allocation_failures_count_as_device_memory_only_in_a_worker(text):
    assert kind_of([remote("actor_rollout_ref_update_actor"), text]) == "oom_gpu_actor_update"
    assert kind_of([f"(TaskRunnerV1 pid=3) {text}"]) == "oom_host_ram"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Could not override 'actor_rollout_ref.actor.nope'.", "config_validation"),
        ("Key 'nope' is not in struct", "config_validation"),
        ("ValueError: train_batch_size (6) must be divisible by n_gpus (4)", "config_validation"),
        ("AssertionError: data size must be divisible by force_group_size * micro_batch_size_per_gpu",
         "config_validation"),
        ("ValueError: Total available GPUs 0 is less than total desired GPUs 8", "ray_resources"),
        ("RuntimeError: can't start new thread", "ray_init"),
        ("OSError: [Errno 98] Address already in use", "port_conflict"),
        ("(raylet) Task was killed due to the node running low on memory.", "oom_host_ram"),
        ("RuntimeError: DataLoader worker (pid 33) is killed by signal: Killed.", "oom_host_ram"),
        ("RuntimeError: DataLoader worker (pid 33) is killed by signal: Bus error.", "shm_or_host_oom"),
        ("OSError: [Errno 28] No space left on device: '/tmp/ray/x'", "disk_full"),
        ("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error", "nccl_error"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_fault"),
        ("FileNotFoundError: Unable to find '/data/train.parquet'", "input_missing"),
        ("OSError: /models/x is not a local folder and is not a valid model identifier", "input_missing"),
        ("ModuleNotFoundError: No module named 'flash_attn'", "import_error"),
        ("ValueError: The repository needs the option trust_remote_code=True", "tokenizer"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load this file", "network"),
        ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "rollout_error"),
        ("WARN: grad_norm is not finite: nan", "nan_inf"),
    ],
)  # fmt: skip
def test_kinds_of_single_lines(line, kind):
    assert kind_of([line]) == kind


@pytest.mark.parametrize(
    ("number", "kind"), [(1, "nccl_timeout"), (2, "nccl_timeout"), (5011, "hang_update")]
)
def test_a_collective_time_out_is_the_networks_fault_only_in_the_first_collectives(number, kind):
    text = f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE)"
    assert kind_of([remote("actor_rollout_ref_update_actor"), text]) == kind


@pytest.mark.parametrize(
    "line",
    [
        remote("actor_rollout_ref_update_actor", error="OutOfMemoryError"),
        "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task",
        "ray.exceptions.ActorUnavailableError: The actor is temporarily unavailable",
        "resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "Async request to resume_memory_occupation timed out (attempt 1)",
        "RuntimeError: Sync replay buffer selected terminal groups with no materializable trajectories.",
        "Error executing job with overrides: ['actor_rollout_ref.model.trust_remote_code=True']",
        "(TaskRunnerV1 pid=1)   'ray_wait_register_center_timeout': 300,",
        'UserWarning: megatron engine is not available: ModuleNotFoundError("No module named megatron")',
        "WARNING 12-01 05:20:19 [vllm.py:1] max_num_seqs should be greater than 1 and less than 4",
    ],
)
def test_wrappers_and_noise_are_never_a_kind(line):
    frames = ["Traceback (most recent call last):", *frame("run")]
    assert kind_of([line]) == "unknown"
    assert kind_of([*frames, line]) == "unknown"


def test_a_worker_that_died_without_a_cause():
    assert kind_of(ACTOR_DEATH) == "ray_actor_death"


def test_a_cause_wins_over_the_death_that_follows():
    assert (
        kind_of([*ACTOR_DEATH, remote("actor_rollout_ref_update_actor"), ALLOCATION])
        == "oom_gpu_actor_update"
    )


REWARD_FAILURE = [
    "ERROR:2026-12-01 05:20:20,142:Error in _run_prompt for uid=5f",
    "Traceback (most recent call last):",
    *frame("_run_agent_loop", file="verl/trainer/ppo/v1/agent_loop_tq.py"),
    remote("compute_score", error="KeyError", actor="RewardLoopWorker"),
    *frame("run_single", file="verl/experimental/reward_loop/reward_manager/naive.py"),
    *frame("_call_with_kwargs", file="verl/trainer/ppo/reward.py"),
    *frame("compute_score", file="../home/me/my_reward.py", source='return extra_info["answer"]'),
]


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'answer'",
        "AssertionError: 3 must be 4",
        "ModuleNotFoundError: No module named 'x'",
        "Mine: no",
    ],
)
def test_an_exception_below_the_reward_function_is_the_users(text):
    lines = [f"(AgentLoopWorkerTQ pid=9) {line}" for line in [*REWARD_FAILURE, text]]
    (found,) = evidence_of(lines)
    assert (found.kind, found.phase, found.text) == ("reward_function", "reward", text)


def test_an_exception_that_nothing_explains_is_kept_as_a_hint():
    (found,) = evidence_of(["Traceback (most recent call last):", *frame("update_actor"), "KeyError: 'x'"])
    assert (found.kind, found.level, found.phase) == ("unknown", 10, "update_actor")


def test_the_recorded_allocation_failure():
    (found,) = evidence_of(console_lines("oom_log_prob_cpu"))
    assert (found.kind, found.phase, found.level) == ("oom_gpu_log_prob", "old_log_prob", 4)
    assert console_lines("oom_log_prob_cpu")[found.line_number - 1].startswith("RuntimeError: [enforce fail")


def test_the_recorded_hang_names_the_receivers_exception():
    found = evidence_of(console_lines("hang_weight_sync"))[0]
    assert (found.kind, found.phase) == ("hang_weight_sync", "weight_sync")
    assert found.text.startswith("TypeError: _patch.<locals>.receive_weights()")


def test_a_run_that_went_well_gives_no_evidence():
    assert evidence_of(console_lines("grpo_tiny_40_steps")) == []


def test_interleaved_writers_do_not_mix():
    actor = ["Traceback (most recent call last):", *frame("update_actor"), ALLOCATION]
    reader = ["Traceback (most recent call last):", *frame("launch_server"), *frame("run")]
    lines = []
    for left, right in zip([f"(WorkerDict pid=1) {line}" for line in actor],
                           [f"(vLLMHttpServer pid=2) {line}" for line in reader], strict=False):  # fmt: skip
        lines += [left, right]
    assert kind_of(lines) == "oom_gpu_actor_update"


DECORATIONS = st.sampled_from(
    [
        "{}",
        "\x1b[31m{}\x1b[0m",
        "(WorkerDict pid=7) {}",
        "\x1b[36m(WorkerDict pid=7)\x1b[0m {}",
        "(WorkerDict pid=7) ERROR 12-01 05:20:21 [core.py:15] {}",
        "[rank0]: {}",
    ]
)
NOISE = st.sampled_from(
    [
        "",
        "INFO:2026-12-01 05:20:20,142:hello",
        "(pid=4) WARNING 12-01 05:20:21 [x.py:1] slow",
        "(SimpleStorageUnit pid=5) target_num_threads 8 should not exceed 2",
    ]
)


@given(decoration=DECORATIONS, noise=st.lists(NOISE, max_size=8), position=st.integers(0, 6))
def test_decoration_and_noise_do_not_change_the_result(decoration, noise, position):
    failing = [
        remote("actor_rollout_ref_update_actor"),
        *frame("update_actor"),
        *frame("forward"),
        ALLOCATION,
    ]
    lines = [decoration.format(line) for line in failing]
    lines[position:position] = noise
    (found,) = evidence_of(lines)
    assert (found.kind, found.phase, found.text) == ("oom_gpu_actor_update", "update_actor", ALLOCATION)


def counted(lines):
    reader = LogReader()
    return [line for line in lines if reader.counts_as_progress(line)]


def test_repeated_warnings_and_heartbeats_are_no_progress():
    heartbeat = (
        "INFO 12-01 05:20:21 [loggers.py:9] Engine 000: Avg prompt throughput: {}.0 tokens/s, Running: 0 reqs"
    )
    warning = "(SimpleStorageUnit pid=5) 2026-12-01 05:56:29,742 - WARNING - target_num_threads {} over 2"
    retry = "Async request to resume_memory_occupation timed out (attempt {})"
    polling = "(TaskRunnerV1 pid=5) still polling partition, {} s"
    lines = [text.format(number) for number in range(5) for text in (heartbeat, warning, retry, polling)]
    assert counted(lines) == [polling.format(0)]


def test_new_lines_steps_and_moving_bars_are_progress():
    lines = [
        "Loading checkpoint shards:  25%|##        | 1/4 [00:01<00:03]",
        "Loading checkpoint shards:  25%|##        | 1/4 [00:09<00:03]",
        "Loading checkpoint shards:  50%|#####     | 2/4 [00:10<00:03]",
        "(TaskRunnerV1 pid=5) step:1 - actor/lr:0.1",
        "(TaskRunnerV1 pid=5) step:2 - actor/lr:0.1",
        "",
        "something else",
    ]
    assert counted(lines) == [lines[index] for index in (0, 2, 3, 4, 6)]


def test_memory_is_bounded():
    reader = LogReader()
    for number in range(2000):
        line = f"(W{number} pid={number}) {'x' * (number % 300)} text"
        reader.feed(line, 0.0)
        reader.counts_as_progress(line)
    assert len(reader._calls) <= 64
    assert len(reader._shapes) <= 256
