import subprocess
import sys

import pytest

PROBE = """
import sys
from autotune.verl_plugin.register import registered
print(sorted(registered()))
print('torch' in sys.modules)
"""


def probe(**environment: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path), **environment}
    return subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=False
    )


def test_nothing_happens_unless_the_environment_asks():
    assert probe().stdout == "[]\nFalse\n"


def test_asked_features_wait_for_their_modules_and_import_nothing_heavy():
    found = probe(
        AUTOTUNE_CPU_MEMORY_CAP_GB="0.5",
        AUTOTUNE_PHASES_PATH="/nowhere/phases.jsonl",
        AUTOTUNE_RANK_LOAD_PATH="/nowhere/rank_load.jsonl",
        AUTOTUNE_REPLAY_POLL_S="0.05",
        AUTOTUNE_TRIAL_KEY="abc",
    )
    assert found.stdout == (
        "['AUTOTUNE_CPU_MEMORY_CAP_GB', 'AUTOTUNE_PHASES_PATH', 'AUTOTUNE_RANK_LOAD_PATH', "
        "'AUTOTUNE_REPLAY_POLL_S', 'AUTOTUNE_TRIAL_KEY']\nFalse\n"
    )


def test_an_extension_is_on_by_its_own_value_only():
    found = probe(
        AUTOTUNE_LENGTH_BUCKETS="sorted", AUTOTUNE_ADAPTIVE_CLIPPING="0.01", AUTOTUNE_TOKEN_CHECK="first_step"
    )
    names = ["AUTOTUNE_ADAPTIVE_CLIPPING", "AUTOTUNE_LENGTH_BUCKETS", "AUTOTUNE_TOKEN_CHECK"]
    assert found.stdout == f"{names}\nFalse\n"
    assert probe(AUTOTUNE_LENGTH_BUCKETS="as_they_come").stdout == "[]\nFalse\n"


@pytest.mark.parametrize("text", ["much", "0", "-1", "inf", "nan"])
def test_a_size_that_is_no_positive_number_ends_the_process(text):
    found = probe(AUTOTUNE_CPU_MEMORY_CAP_GB=text)
    assert found.returncode == 1
    assert f"AUTOTUNE_CPU_MEMORY_CAP_GB: found {text!r}; allowed: a positive number" in found.stderr
