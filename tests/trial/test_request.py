import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from autotune.trial.request import AttemptRequest, CpuShare, launch_arguments


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
        extra_arguments=("a=1",), environment={"A": "b"}, device="cpu", cpu=CpuShare(cap_gb=0.5, threads=1)
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
