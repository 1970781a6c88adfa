"""What is gathered is true of this machine, and survives the database."""

import importlib.metadata
import json
import platform
import subprocess

import pytest

import autotune
from autotune.export.provenance import Provenance, gather_provenance, git_commit, installed_versions


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "reward.py").write_text("def score(): return 1\n")
    git("add", "reward.py")
    git("commit", "-m", "start")
    return tmp_path


def test_this_machine(tmp_path):
    found = gather_provenance({"survive": 7}, tmp_path)
    assert found.python == platform.python_version()
    assert found.versions["verl-autotune"] == autotune.__version__
    assert found.versions["optuna"] == importlib.metadata.version("optuna")
    assert found.cpu_count >= 1
    assert found.memory_gb > 0
    assert found.seeds == {"survive": 7}
    assert Provenance.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_what_is_not_installed_is_left_out():
    assert "" not in installed_versions().values()
    assert "sglang" not in installed_versions()


def test_the_commit_says_whether_files_differ(repository):
    commit = git_commit(repository)
    assert len(commit) == 40
    (repository / "notes.txt").write_text("untracked files do not run")
    assert git_commit(repository) == commit
    (repository / "reward.py").write_text("def score(): return 2\n")
    assert git_commit(repository) == f"{commit}+changes"


def test_no_commit_outside_git(tmp_path):
    assert git_commit(tmp_path) is None
    assert git_commit(tmp_path / "missing") is None
