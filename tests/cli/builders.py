"""A job whose files are all in order, and a database that a whole ladder has filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from autotune.cli.app import exit_code_of
from autotune.clock import ManualClock
from autotune.controller.ladder_run import run_ladder
from autotune.controller.loop import Controller
from autotune.controller.progress import SilentWatcher
from autotune.controller.services import Services
from autotune.export.provenance import gather_provenance
from autotune.job.loading import job_hash, load_job
from autotune.job.paths import JobPaths
from autotune.records import RUNGS
from autotune.store.store import Store
from autotune.trial.preparation import Preparer
from tests.controller.conftest import AgreeableValidator, PlayedLauncher, job_of

ROW = {
    "data_source": "tiny",
    "prompt": [{"role": "user", "content": "hello"}],
    "reward_model": {"style": "rule", "ground_truth": "a"},
}


def write_inputs(folder: Path) -> None:
    """Model folder, data and reward file, as far as they are looked at before a start."""
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    for name in ("train", "val"):
        write_rows(folder / f"{name}.parquet", [ROW] * 16)
    (folder / "reward.py").write_text("def compute_score(**_): return 1.0\n")


def write_rows(path: Path, rows: list[dict[str, Any]], columns: pa.Schema | None = None) -> None:
    """A parquet file; `columns` for one without rows."""
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), path)


def job_sections() -> dict[str, Any]:
    """A three-stage CPU job over `write_inputs`, as a job file has it."""
    sections = job_of(Path("results")).model_dump(mode="json", exclude_none=True)
    sections["verl"]["overrides"]["reward.custom_reward_function.path"] = "reward.py"
    sections["verl"]["overrides"]["reward.custom_reward_function.name"] = "compute_score"
    return sections


def write_job(path: Path, sections: dict[str, Any]) -> Path:
    """The job file."""
    path.write_text(yaml.safe_dump(sections, sort_keys=False))
    return path


def fill(job_file: Path) -> None:
    """Climbs the whole ladder over a synthetic verl; leaves a database as `autotune run` does."""
    job = load_job(job_file)
    paths = JobPaths(Path(job.storage.results), job.name)
    clock, watcher = ManualClock(), SilentWatcher()
    launcher = PlayedLauncher(clock)
    preparer = Preparer(
        job,
        validator=AgreeableValidator(),  # type: ignore[arg-type]
        working_directory=Path.cwd(),
        python="python",
    )
    url = f"sqlite:///{paths.database}"
    with Store.open(url, job_name=job.name, job_hash=job_hash(job), version="test") as store:
        store.set_provenance({**gather_provenance({}, Path.cwd()).to_json(), "job": job.model_dump_json()})
        services = Services(
            job=job,
            store=store,
            launcher=launcher,
            preparer=preparer,
            paths=paths,
            clock=clock,
            watcher=watcher,
        )
        controller = Controller(job, store=store, launcher=launcher, clock=clock, watcher=watcher)
        run_ladder(services, controller, RUNGS)


def listing(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its content, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts
    }


def answered(capsys: Any, *arguments: str) -> Any:
    """The JSON answer of a command that succeeds; nothing else is on standard output."""
    assert exit_code_of([*arguments, "--json"]) == 0
    out, _ = capsys.readouterr()
    return json.loads(out)


def printed(capsys: Any, *arguments: str) -> str:
    """What a command that succeeds prints for people."""
    assert exit_code_of(list(arguments)) == 0
    out, _ = capsys.readouterr()
    return str(out)


def refused(capsys: Any, *arguments: str, code: int = 2) -> list[dict[str, str]]:
    """The faults that a command is refused for: told once as JSON, once as text, and complete."""
    assert exit_code_of([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    answer = json.loads(out)
    assert answer["exit_code"] == code
    faults: list[dict[str, str]] = answer["faults"]
    assert exit_code_of(list(arguments)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    for fault in faults:
        assert fault["where"]
        assert fault["found"]
        assert fault["next_step"]
        for text in (fault["where"], fault["key"], fault["found"], fault["allowed"], fault["next_step"]):
            assert text in err
    return faults
