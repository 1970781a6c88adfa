"""A libnvidia-ml.so.1 built here, which the real bindings load in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("libnvidia_ml_stub.c")


@pytest.fixture(scope="session")
def stub_folder(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-o", str(library), str(SOURCE)], check=True)
    return folder


@pytest.fixture
def ask_nvml(stub_folder, tmp_path):
    """Run a program against the stub with this state; returns the JSON that the program prints.

    The program finds the state file's path in `STATE` and may rewrite it.
    """

    def ask(state: str, program: str) -> object:
        path = tmp_path / "state.txt"
        path.write_text(state)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(stub_folder), "STUB_NVML_STATE": str(path)}
        head = "import json, os, pathlib\nSTATE = pathlib.Path(os.environ['STUB_NVML_STATE'])\n"
        done = subprocess.run(
            [sys.executable, "-c", head + program],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask
