import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from autotune.trial.request import (
    SESSION_ENTRY,
    AttemptRequest,
    CpuShare,
    SessionPlace,
    launch_arguments,
    session_request,
)
from autotune.verl_plugin.warm.wire import SESSION_FOLDER


def request_with(**fields):
    values = {
        "attempt_id": "ab12",
        "folder": "/runs/a",
        "working_directory": "/home/me",
        "python": "/env/bin/python",
        "config_text": "trainer: {}\n",
    }
    return AttemptRequest(**(values | fields))


def test_json_keeps_everything():
    request = request_with(
        extra_arguments=("a=1",),
        environment={"A": "b"},
        device="cpu",
        cpu=CpuShare(cap_gb=0.5, threads=1),
        mirrors=("wandb",),
    )
    assert AttemptRequest.from_json(request.to_json()) == request


def overrides_of(request):
    arguments = launch_arguments(request, "/tmp/at-1")
    assert arguments[:7] == [
        "/env/bin/python",
        "-m",
        "verl.trainer.main_ppo",
        "--config-path",
        request.folder,
        "--config-name",
        "config",
    ]
    parsed = OverridesParser.create().parse_overrides(arguments[7:])
    return {override.key_or_group: override.value() for override in parsed}


def test_a_gpu_trial_gets_a_ray_of_its_own():
    assert overrides_of(request_with(gpus=4)) == {
        "hydra.run.dir": "/runs/a/hydra",
        "ray_kwargs.ray_init.address": "local",
        "ray_kwargs.ray_init._temp_dir": "/tmp/at-1/ray",
        "ray_kwargs.ray_init.include_dashboard": False,
        "ray_kwargs.ray_init.num_gpus": 4,
    }


def test_a_cpu_trial_names_its_logical_cpus():
    overrides = overrides_of(request_with(device="cpu", gpus=2, cpu=CpuShare(ray_cpus=16)))
    assert overrides["ray_kwargs.ray_init.num_cpus"] == 16
    assert overrides["ray_kwargs.ray_init.num_gpus"] == 2


@pytest.mark.parametrize("folder", ["/runs/lr=1e-6, n=4", "/runs/it's {here}", "/runs/a b", "/runs/[x]"])
def test_any_folder_name_survives_hydra(folder):
    assert overrides_of(request_with(folder=folder))["hydra.run.dir"] == f"{folder}/hydra"


def test_extra_arguments_come_before_ours():
    arguments = launch_arguments(request_with(extra_arguments=("trainer.seed=1",)), "/tmp/at-1")
    assert arguments[7] == "trainer.seed=1"


def test_a_session_is_started_with_its_first_candidate():
    place = SessionPlace(id="session0", folder="/results/sessions/session0", number=0)
    request = request_with(session=place, session_key="key", wall_limit_s=60.0)
    assert AttemptRequest.from_json(request.to_json()) == request
    session = session_request(request)
    assert (session.attempt_id, session.folder, session.entry) == ("session0", place.folder, SESSION_ENTRY)
    assert session.environment[SESSION_FOLDER] == place.folder
    assert (session.config_text, session.wall_limit_s, session.session) == (request.config_text, None, None)
