"""What the user gave is wrong: one complete message, exit code 2, and nothing written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from autotune.job.loading import job_hash, load_job
from autotune.store.lock import ControllerLock
from autotune.store.store import Store
from tests.cli.builders import ROW, listing, refused, write_rows

OVERRIDES = ("verl", "overrides")
MODEL = "actor_rollout_ref.model.path"
REWARD = "reward.custom_reward_function.path"

Change = Callable[[dict[str, Any]], object]


def override(**values: Any) -> Change:
    """Lays values over verl's; `__` stands for a dot."""
    return lambda sections: sections["verl"]["overrides"].update(
        {key.replace("__", "."): value for key, value in values.items()}
    )


def only(faults: list[dict[str, str]]) -> dict[str, str]:
    (fault,) = faults
    return fault


# The job file


def test_missing_job(capsys: Any, folder: Path) -> None:
    before = listing(folder)
    fault = only(refused(capsys, "run", "none.yaml"))
    assert (fault["where"], fault["found"]) == ("none.yaml", "no such file")
    assert "autotune init" in fault["next_step"]
    assert "no folder" in only(refused(capsys, "run", "jobs/none.yaml"))["found"]
    assert listing(folder) == before


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("name: [unclosed\nverl: {}\n", "job.yaml:2", "expected"),
        ("name: a\nname: b\n", "job.yaml:2", "a second time"),
        ("- a\n- list\n", "job.yaml", "list"),
        ("", "job.yaml", "nothing"),
        ("name: tab\nverl:\n\toverrides: x\n", "job.yaml:3", "'\\t'"),
    ],
)
def test_malformed_yaml(capsys: Any, folder: Path, text: str, place: str, found: str) -> None:
    (folder / "job.yaml").write_text(text)
    before = listing(folder)
    fault = refused(capsys, "run", "job.yaml")[0]
    assert fault["where"].startswith(place)
    assert found in (fault["found"] + fault["next_step"]).lower()
    assert listing(folder) == before


def test_a_job_that_is_no_text(capsys: Any, folder: Path) -> None:
    (folder / "job.yaml").write_bytes(b"\xff\xfe\x00binary")
    assert only(refused(capsys, "run", "job.yaml"))["where"] == "job.yaml"


def test_a_folder_in_place_of_a_job(capsys: Any, folder: Path) -> None:
    assert only(refused(capsys, "run", "model"))["where"] == "model"


def test_all_faults_of_a_job_at_once(capsys: Any, job_file: Any, folder: Path) -> None:
    def break_it(sections: dict[str, Any]) -> None:
        sections["name"] = "no spaces please"
        sections["resources"]["gpus_per_trail"] = 1
        sections["guards"]["kl_limit"] = -1
        sections["stages"]["survive"]["steps"] = "three"
        sections["stages"]["speed"]["search_space"] = "survive_fdsp"
        sections["stages"]["polish"] = {"steps": 1}

    name = job_file(break_it)
    before = listing(folder)
    keys = {fault["key"] for fault in refused(capsys, "run", name)}
    assert keys >= {
        "name",
        "resources.gpus_per_trail",
        "guards.kl_limit",
        "stages.survive.steps",
        "stages.speed.search_space",
        "stages.polish",
    }
    assert listing(folder) == before


def test_unknown_stage_in_the_job(capsys: Any, job_file: Any) -> None:
    name = job_file(lambda job: job["stages"].update(polish=job["stages"]["speed"]))
    fault = only(refused(capsys, "run", name))
    assert fault["key"] == "stages.polish"
    assert "survive" in fault["allowed"]


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_unknown_stage_on_the_command_line(
    capsys: Any, job_file: Any, folder: Path, dry_run: tuple[str, ...]
) -> None:
    name = job_file()
    before = listing(folder)
    fault = only(refused(capsys, "run", name, "--stage", "polish", *dry_run))
    assert (fault["where"], fault["found"]) == ("--stage", "polish")
    assert fault["allowed"] == "survive, speed, quality, finish"
    assert listing(folder) == before


def test_a_stage_before_its_predecessor(capsys: Any, job_file: Any, folder: Path) -> None:
    name = job_file()
    before = listing(folder)
    fault = only(refused(capsys, "run", name, "--stage", "speed"))
    assert (fault["where"], fault["found"]) == ("--stage", "speed")
    assert "--stage survive" in fault["next_step"]
    assert listing(folder) == before


@pytest.mark.parametrize("command", ["run", "status", "trials", "export"])
def test_every_command_reports_the_job_files_faults(capsys: Any, job_file: Any, command: str) -> None:
    name = job_file(lambda job: job.pop("verl"))
    argument = (name,) if command == "run" else ("--job", name)
    assert only(refused(capsys, command, *argument))["key"] == "verl"


# verl's configuration


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_keys_that_verl_does_not_have(
    capsys: Any, job_file: Any, folder: Path, dry_run: tuple[str, ...]
) -> None:
    name = job_file(override(data__train_batch_sise=8, trainer__no_such_key=1))
    before = listing(folder)
    faults = refused(capsys, "run", name, *dry_run)
    assert [fault["key"] for fault in faults] == ["data.train_batch_sise", "trainer.no_such_key"]
    assert "data.train_batch_size" in faults[0]["allowed"] + faults[0]["next_step"]
    assert listing(folder) == before


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_keys_of_the_stages_that_verl_does_not_have(
    capsys: Any, job_file: Any, folder: Path, dry_run: tuple[str, ...]
) -> None:
    key = "actor_rollout_ref.rollout.max_num_sequences"

    def break_it(sections: dict[str, Any]) -> None:
        stages = sections["stages"]
        stages["speed"]["search_space"]["parameters"][key] = {"kind": "int", "low": 1, "high": 4}
        stages["quality"]["overrides"] = {"trainer.no_such_key": 1}

    name = job_file(break_it)
    before = listing(folder)
    faults = refused(capsys, "run", name, *dry_run)
    assert [(fault["where"], fault["key"]) for fault in faults] == [
        ("stages.speed.search_space", key),
        ("stages.quality.overrides", "trainer.no_such_key"),
    ]
    assert listing(folder) == before


# Inputs


@pytest.mark.parametrize(
    ("change", "key", "found"),
    [
        (override(actor_rollout_ref__model__path="no_model"), MODEL, "no folder no_model"),
        (override(actor_rollout_ref__model__path="bare"), MODEL, "without config.json"),
        (override(data__train_files="none.parquet"), "data.train_files", "no file none.parquet"),
        (override(data__val_files=["val.parquet", "none.parquet"]), "data.val_files", "none.parquet"),
        (override(data__train_files="torn.parquet"), "data.train_files", "cannot be read"),
        (override(data__train_files="empty.parquet"), "data.train_files", "no rows"),
        (override(data__train_files="columns.parquet"), "data.train_files", "data_source, reward_model"),
        (override(reward__custom_reward_function__path="none.py"), REWARD, "no file none.py"),
        (override(reward__custom_reward_function__path="syntax.py"), REWARD, "line 1"),
        (override(reward__custom_reward_function__path="raises.py"), REWARD, "KeyError: 'no such'"),
        (
            override(reward__custom_reward_function__name="score"),
            "reward.custom_reward_function.name",
            "no function score",
        ),
    ],
)
def test_unusable_inputs(
    capsys: Any, job_file: Any, folder: Path, change: Change, key: str, found: str
) -> None:
    (folder / "bare").mkdir()
    (folder / "torn.parquet").write_bytes(b"PAR1 torn")
    write_rows(folder / "empty.parquet", [], pa.Table.from_pylist([ROW]).schema)
    write_rows(folder / "columns.parquet", [{"prompt": ROW["prompt"]}] * 16)
    (folder / "syntax.py").write_text("def compute_score(:\n")
    (folder / "raises.py").write_text("{}['no such']\n")
    name = job_file(change)
    before = listing(folder)
    fault = only(refused(capsys, "run", name))
    assert fault["key"] == key
    assert found in fault["found"]
    assert listing(folder) == before


def test_all_unusable_inputs_at_once(capsys: Any, job_file: Any, folder: Path) -> None:
    name = job_file()
    shutil.rmtree(folder / "model")
    (folder / "val.parquet").unlink()
    (folder / "reward.py").write_text("import no_such_module\n")
    assert [fault["key"] for fault in refused(capsys, "run", name)] == [MODEL, "data.val_files", REWARD]


# Devices


def test_fewer_gpus_than_the_job_wants(capsys: Any, job_file: Any, folder: Path) -> None:
    def want(sections: dict[str, Any]) -> None:
        sections["resources"].update(device="gpu", gpus_per_trial=512)
        sections["verl"]["overrides"]["data.train_batch_size"] = 16

    name = job_file(want)
    before = listing(folder)
    fault = only(refused(capsys, "run", name))
    assert fault["key"] == "resources.gpus_per_trial"
    assert fault["found"].startswith("512 wanted")
    assert listing(folder) == before


def test_a_cluster_that_does_not_answer(capsys: Any, job_file: Any, folder: Path) -> None:
    name = job_file(lambda job: job["resources"].update(ray_address="127.0.0.1:1"))
    before = listing(folder)
    fault = only(refused(capsys, "run", name))
    assert fault["key"] == "resources.ray_address"
    assert without_results(listing(folder)) == before


def without_results(files: dict[str, bytes]) -> dict[str, bytes]:
    """The listing less the results folder, which may stay where it is empty."""
    return {name: content for name, content in files.items() if name != "results"}


# Database and results folder


@pytest.fixture
def database(folder: Path, job_file: Any) -> Path:
    """The database of the sound job, of which nothing has been climbed yet."""
    job = load_job(Path(job_file()))
    url = "sqlite:///results/played.db"
    Store.open(url, job_name=job.name, job_hash=job_hash(job), version="0.0.1").close()
    return folder / "results" / "played.db"


def sql(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "key", "found"),
    [
        ("UPDATE autotune_job SET job_name = 'other'", "job name", "another job: other"),
        ("UPDATE autotune_job SET job_hash = 'other'", "job", "an earlier form of this job"),
        ("UPDATE autotune_job SET schema_version = 999", "schema version", "a newer autotune"),
        ("UPDATE autotune_job SET schema_version = 0", "schema version", "an older autotune"),
    ],
)
def test_a_database_that_is_not_this_jobs(
    capsys: Any, database: Path, folder: Path, statement: str, key: str, found: str
) -> None:
    sql(database, statement)
    before = listing(folder)
    fault = only(refused(capsys, "run", "job.yaml"))
    assert (fault["where"], fault["key"]) == ("results/played.db", key)
    assert found in fault["found"]
    assert without_wal(listing(folder)) == before


def without_wal(files: dict[str, bytes]) -> dict[str, bytes]:
    """The listing less the empty side files that SQLite needs for reading."""
    return {name: content for name, content in files.items() if not name.endswith(("-wal", "-shm"))}


def test_a_file_that_is_no_database(capsys: Any, folder: Path, job_file: Any) -> None:
    (folder / "results").mkdir()
    (folder / "results" / "played.db").write_text("not a database at all, but long enough to be one " * 30)
    name = job_file()
    before = listing(folder)
    for command in (("run", name), ("status", "--job", "played")):
        fault = only(refused(capsys, *command))
        assert "not a database" in fault["found"]
    assert listing(folder) == before


def test_a_changed_job(capsys: Any, database: Path, job_file: Any) -> None:
    name = job_file(override(data__train_batch_size=8))
    assert "an earlier form of this job" in only(refused(capsys, "run", name))["found"]


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "nodialect://host/db",
        # Found out when it is made, which is after Ray's start.
        pytest.param("sqlite:////proc/no/played.db", marks=pytest.mark.ray),
    ],
)
def test_an_unusable_storage_url(capsys: Any, job_file: Any, folder: Path, url: str) -> None:
    name = job_file(lambda job: job["storage"].update(url=url))
    before = listing(folder)
    only(refused(capsys, "run", name))
    assert without_results(listing(folder)) == before


@pytest.mark.parametrize("results", ["reward.py", "reward.py/results", "/proc/results"])
def test_an_unwritable_results_folder(capsys: Any, job_file: Any, folder: Path, results: str) -> None:
    name = job_file(lambda job: job["storage"].update(results=results))
    before = listing(folder)
    fault = only(refused(capsys, "run", name))
    assert fault["key"] == "storage.results"
    assert results in fault["where"]
    assert listing(folder) == before


@pytest.fixture
def full_disk(folder: Path) -> Iterator[Path]:
    """A folder on a disk without a free byte."""
    target = folder / "full"
    target.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(target)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a full disk needs a mount of its own: {mounted.stderr.decode().strip()}")
    try:
        (target / "ballast").write_bytes(b"x" * 2**16)
        yield target
    finally:
        subprocess.run(["umount", "-l", str(target)], check=True)


def test_a_full_disk(capsys: Any, job_file: Any, full_disk: Path) -> None:
    name = job_file(lambda job: job["storage"].update(results="full/results"))
    fault = only(refused(capsys, "run", name))
    assert "No space left" in fault["found"]
    assert [path.name for path in full_disk.rglob("*") if path.is_file()] == ["ballast"]


@pytest.mark.ray
@pytest.mark.timeout(240)
def test_a_disk_too_small_for_a_database(job_file: Any, folder: Path) -> None:
    """The lock still fits; a limit of the process stands for the disk, so it needs one of its own."""
    name = job_file()
    program = (
        "import resource, signal, sys\n"
        "from autotune.cli.app import exit_code_of\n"
        "from autotune.store.store import Store\n"
        "make = Store.open.__func__\n"
        "def limited(kind, url, **identity):\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "    return make(kind, url, **identity)\n"
        "Store.open = classmethod(limited)\n"
        "sys.exit(exit_code_of(sys.argv[1:]))\n"
    )
    before = listing(folder)
    done = subprocess.run(
        [sys.executable, "-c", program, "run", name, "--quiet"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "results/played.db" in done.stderr
    assert "the disk" in done.stderr
    assert without_results(listing(folder)) == before


def test_a_second_controller(capsys: Any, job_file: Any, folder: Path) -> None:
    name = job_file()
    with ControllerLock(folder / "results" / "played.lock"):
        before = listing(folder)
        fault = only(refused(capsys, "run", name))
        assert listing(folder) == before
    assert fault["key"] == "controller"
    assert f"process {os.getpid()}" in fault["found"]
    assert "autotune status" in fault["next_step"]


# Reading commands


@pytest.mark.parametrize("command", [("status",), ("trials",), ("show", "0"), ("export",), ("dashboard",)])
@pytest.mark.parametrize("job", [(), ("--job", "none"), ("--job", "results/none.db")])
def test_no_database_yet(capsys: Any, folder: Path, command: tuple[str, ...], job: tuple[str, ...]) -> None:
    before = listing(folder)
    if command == ("dashboard",):
        from autotune.cli.app import exit_code_of

        assert exit_code_of([*command, *job]) == 2
    else:
        assert "no database" in only(refused(capsys, *command, *job))["found"]
    assert listing(folder) == before
