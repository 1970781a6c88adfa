import pytest

from autotune.trial.environment import plugin_environment, trial_environment
from autotune.trial.request import AttemptRequest, CpuShare

OUTER = {
    "PATH": "/bin",
    "HF_HOME": "/hf",
    "RAY_ADDRESS": "10.0.0.1:6379",
    "RAY_JOB_ID": "01000000",
    "CUDA_VISIBLE_DEVICES": "2,3",
}


def environment(outer=OUTER, **fields):
    values = {
        "attempt_id": "ab12",
        "folder": "/runs/a",
        "working_directory": "/home/me",
        "python": "python",
        "config_text": "",
    }
    return trial_environment(AttemptRequest(**(values | fields)), outer, "/tmp/at-1")


def test_the_outer_ray_is_gone_and_the_rest_stays():
    made = environment()
    ours = {"RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "RAY_worker_niceness"}
    assert {name for name in made if name.startswith("RAY_")} == ours
    assert (made["PATH"], made["HF_HOME"], made["CUDA_VISIBLE_DEVICES"]) == ("/bin", "/hf", "2,3")


def test_the_attempt_writes_into_its_folder_and_the_private_temp_folder():
    made = environment()
    assert made["VERL_FILE_LOGGER_PATH"] == "/runs/a/metrics.jsonl"
    assert made["AUTOTUNE_PHASES_PATH"] == "/runs/a/phases.jsonl"
    assert made["TMPDIR"] == "/tmp/at-1"
    assert made["AUTOTUNE_TRIAL_KEY"] == "ab12"


def test_a_gpu_trial_has_no_cpu_settings():
    made = environment()
    assert "AUTOTUNE_CPU" not in made
    assert "VERL_PLATFORM" not in made


def test_a_cpu_trial_asks_the_plugin_for_the_platform_and_the_cap():
    made = environment(device="cpu", cpu=CpuShare(cap_gb=0.75, replay_poll_s=0.1, threads=1, kv_cache_gb=2))
    assert made["AUTOTUNE_CPU"] == "1"
    assert made["AUTOTUNE_CPU_MEMORY_CAP_GB"] == "0.75"
    assert made["AUTOTUNE_MEMORY_CAP_DIR"] == "/runs/a/memory_caps"
    assert made["AUTOTUNE_REPLAY_POLL_S"] == "0.1"
    assert (made["VERL_PLATFORM"], made["VERL_ENGINE_DEVICE"]) == ("cpu", "cuda")
    assert (made["OMP_NUM_THREADS"], made["VLLM_CPU_KVCACHE_SPACE"]) == ("1", "2")
    assert made["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert "HF_HUB_OFFLINE" not in made


def test_what_a_cpu_trial_does_not_ask_is_left_out():
    made = environment(device="cpu")
    assert "AUTOTUNE_CPU_MEMORY_CAP_GB" not in made
    assert "AUTOTUNE_REPLAY_POLL_S" not in made


@pytest.mark.parametrize(
    ("outer", "job", "expected"),
    [
        ("", "", "autotune.verl_plugin.register"),
        ("mine", "", "mine,autotune.verl_plugin.register"),
        ("mine", "other,more", "other,more,autotune.verl_plugin.register"),
        ("autotune.verl_plugin.register,mine", "", "mine,autotune.verl_plugin.register"),
    ],
)
def test_the_plugin_joins_the_users_external_modules(outer, job, expected):
    made = environment(
        outer={"VERL_USE_EXTERNAL_MODULES": outer} if outer else {},
        environment={"VERL_USE_EXTERNAL_MODULES": job} if job else {},
    )
    assert made["VERL_USE_EXTERNAL_MODULES"] == expected


def test_the_jobs_variables_win_over_the_nodes_but_not_over_ours():
    made = environment(environment={"HF_HOME": "/mine", "TMPDIR": "/elsewhere", "RAY_AUTH_MODE": "token"})
    assert (made["HF_HOME"], made["TMPDIR"], made["RAY_AUTH_MODE"]) == ("/mine", "/tmp/at-1", "token")


def test_compiled_kernels_are_shared_between_trials():
    assert environment(outer={"TMPDIR": "/scratch", "USER": "me"})["TORCHINDUCTOR_CACHE_DIR"] == (
        "/scratch/torchinductor_me"
    )
    assert environment(outer={"TORCHINDUCTOR_CACHE_DIR": "/c"})["TORCHINDUCTOR_CACHE_DIR"] == "/c"


def test_the_load_monitor_is_asked_for_by_the_job():
    assert environment(load_monitor=True)["AUTOTUNE_RANK_LOAD_PATH"] == "/runs/a/rank_load.jsonl"
    assert "AUTOTUNE_RANK_LOAD_PATH" not in environment()


def test_mirrored_trials_write_beside_the_job_and_never_into_one_run():
    outer = {**OUTER, "WANDB_API_KEY": "k", "WANDB_RUN_ID": "one", "MLFLOW_RUN_ID": "one"}
    made = environment(
        outer=outer, folder="/r/j/attempts/speed-3-0", mirrors=("tensorboard", "wandb", "mlflow")
    )
    assert made["AUTOTUNE_MIRRORS"] == "tensorboard,wandb,mlflow"
    assert made["TENSORBOARD_DIR"] == "/r/j/attempts/speed-3-0/tensorboard"
    assert (made["WANDB_DIR"], made["MLFLOW_TRACKING_URI"]) == ("/r/j", "sqlite:////r/j/mlflow.db")
    assert (made["WANDB_API_KEY"], made["WANDB_INIT_TIMEOUT"]) == ("k", "30")
    assert {"WANDB_RUN_ID", "MLFLOW_RUN_ID"}.isdisjoint(made)


def test_the_users_own_tracker_variables_win():
    outer = {"WANDB_DIR": "/mine", "MLFLOW_TRACKING_URI": "http://mlflow:5000"}
    made = environment(
        outer=outer, mirrors=("wandb", "mlflow"), environment={"MLFLOW_HTTP_REQUEST_TIMEOUT": "60"}
    )
    assert {name: made[name] for name in outer} == outer
    assert made["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "60"


def test_without_mirrors_nothing_of_it_is_there():
    made = environment(outer={**OUTER, "MLFLOW_RUN_ID": "one"})
    assert {"AUTOTUNE_MIRRORS", "WANDB_DIR", "MLFLOW_TRACKING_URI"}.isdisjoint(made)
    assert made["MLFLOW_RUN_ID"] == "one"


def test_the_plugin_stands_behind_the_users_own_external_modules():
    plugin = "autotune.verl_plugin.register"
    assert plugin_environment({}) == {"VERL_USE_EXTERNAL_MODULES": plugin}
    named = {"VERL_USE_EXTERNAL_MODULES": f"mine,{plugin}"}
    assert plugin_environment(named) == {"VERL_USE_EXTERNAL_MODULES": f"mine,{plugin}"}
