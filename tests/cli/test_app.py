"""The command line as a whole: its options, and what becomes of what is raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from autotune import __version__
from autotune.cli import app as command_line
from autotune.cli import trials
from autotune.cli.app import app, exit_code_of
from autotune.errors import AutotuneError, Fault, NothingFeasibleError, StoppedError, StoreError

OPTIONS = {
    "init": "NAME --from --model --train --val --gpus --reward --algorithm --device --output --force --json",
    "run": "JOB --stage --dry-run --json --quiet",
    "status": "--job --json",
    "trials": "--job --stage --json",
    "show": "TRIAL --job --stage --json",
    "report": "--output --job --json",
    "dashboard": "--job --port --json",
    "export": "--output --job --form --stage --require-confirmed --json",
    "check": "TARGET --verl-version --gpus --fix --json",
    "explain": "LOG --json",
}
"""Every option is a promise: a new one is added here on purpose, never where a job file's key would do."""


def test_commands_and_options_are_frozen() -> None:
    group: Any = typer.main.get_command(app)
    found = {}
    for name, command in group.commands.items():
        names = [
            parameter.opts[0] if parameter.opts[0].startswith("-") else (parameter.metavar or parameter.name)
            for parameter in command.params
        ]
        found[name] = " ".join(one if one.startswith("-") else one.strip("{}").upper() for one in names)
    assert found == OPTIONS
    assert [parameter.opts for parameter in group.params] == [["--version"]]


def test_every_command_and_option_says_what_it_does() -> None:
    group: Any = typer.main.get_command(app)
    for command in group.commands.values():
        assert command.help
        assert all(parameter.help for parameter in command.params)


def test_version(capsys: Any) -> None:
    assert exit_code_of(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["run"],
        ["run", "a.yaml", "--fast"],
        ["trials", "--stage"],
        ["show"],
        ["export", "--form", "toml"],
        ["dashboard", "--port", "70000"],
        ["init", "a", "--model", "m", "--train", "t", "--val", "v", "--gpus", "0"],
    ],
)
def test_a_command_line_that_cannot_be_read(capsys: Any, arguments: list[str]) -> None:
    assert exit_code_of(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Error" in err
    assert "Traceback" not in err


def test_a_command_line_that_cannot_be_read_as_json(capsys: Any) -> None:
    assert exit_code_of(["run", "a.yaml", "--fast", "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"].startswith("No such option: --fast")
    assert answer["faults"][0]["where"] == "command line"


def test_help_for_whoever_types_nothing(capsys: Any) -> None:
    assert exit_code_of([]) == 2
    out, err = capsys.readouterr()
    assert "Usage: autotune" in out + err


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `autotune trials` end in `error`."""

    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(trials, "open_selected", fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AutotuneError("something else"), 1),
        (StoreError(Fault(where="a.db", found="[red]no", next_step="mend it")), 2),
        (NothingFeasibleError("stage survive: nothing ran"), 3),
        (StoppedError("stopped: SIGINT"), 4),
    ],
)
def test_what_is_raised_on_purpose(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, error: AutotuneError, code: int
) -> None:
    raising(error, monkeypatch)
    assert exit_code_of(["trials"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "[red]no" in err if code == 2 else str(error) in err
    assert exit_code_of(["trials", "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    answer = json.loads(out)
    assert set(answer) == {"error", "exit_code", "faults"}
    assert answer["exit_code"] == code
    assert len(answer["faults"]) == (1 if code == 2 else 0)
    for fault in answer["faults"]:
        assert set(fault) == {"where", "key", "found", "allowed", "next_step"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_ctrl_c_outside_of_the_ladder(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    raising(error, monkeypatch)
    assert exit_code_of(["trials"]) == 4
    assert "stopped" in capsys.readouterr().err


def test_a_defect_of_our_own_shows_where_it_is(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(ZeroDivisionError("by zero"), monkeypatch)
    assert exit_code_of(["trials"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "autotune failed, which is a defect of its own: ZeroDivisionError: by zero"
    assert exit_code_of(["trials", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"error": lines[-1], "exit_code": 1, "faults": []}


def test_main_leaves_with_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.argv", ["autotune", "run", "none.yaml"])
    with pytest.raises(SystemExit) as left:
        command_line.main()
    assert left.value.code == 2
    assert "none.yaml" in capsys.readouterr().err
