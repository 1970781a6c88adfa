"""The `autotune` command: registers the commands and turns errors into messages and exit codes."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence

import typer
from rich.console import Console

from autotune import __version__
from autotune.cli import check, dashboard, explain, export, init, report, run, show, status, trials
from autotune.errors import AutotuneError, Fault, InputError, StoppedError

_COMMAND_LINE_ERROR: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
"""Root of what is wrong with a command line; click's own, or that of the copy which later typers carry."""
_TYPERS_CTRL_C = 130
"""What later typers return for a KeyboardInterrupt; earlier ones raise it as Abort."""

app = typer.Typer(
    name="autotune",
    help="Tunes a verl job in short real trials: survive, speed up, improve results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("init")(init.init)
app.command("run")(run.run)
app.command("status")(status.status)
app.command("trials")(trials.trials)
app.command("show")(show.show)
app.command("dashboard")(dashboard.dashboard)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("check")(check.check)
app.command("explain")(explain.explain)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit()


def main() -> None:
    """Entry point; exits 0 done, 2 bad input, 3 nothing feasible, 4 stopped, resumable, 1 anything else."""
    sys.exit(exit_code_of(sys.argv[1:]))


def exit_code_of(arguments: list[str]) -> int:
    """Runs one command line; whatever is raised becomes one message and its exit code."""
    as_json = "--json" in arguments
    try:
        code = app(arguments, standalone_mode=False, prog_name="autotune")
    except AutotuneError as error:
        _tell(error, as_json=as_json)
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = _TYPERS_CTRL_C
    except BrokenPipeError:  # `autotune trials | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _COMMAND_LINE_ERROR as error:
        return _tell_usage(error, as_json=as_json)
    except Exception as error:
        return _tell_defect(error, as_json=as_json)
    if code == _TYPERS_CTRL_C:
        Console(stderr=True).print("stopped")
        return StoppedError.exit_code
    return code if isinstance(code, int) else 0


def _tell(error: AutotuneError, *, as_json: bool) -> None:
    faults = error.faults if isinstance(error, InputError) else ()
    if as_json:
        _print_json(str(error), error.exit_code, faults)
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not faults:
        console.print(str(error), markup=False)
        return
    for fault in faults:
        console.print(f"{fault.where}{': ' + fault.key if fault.key else ''}", style="bold red", markup=False)
        for name, text in (("found", fault.found), ("allowed", fault.allowed), ("next", fault.next_step)):
            if text:
                console.print(f"  {name:<8}{text}", markup=False)


def _tell_usage(error: Exception, *, as_json: bool) -> int:
    """A command line that cannot be read; typer's own words."""
    code: int = getattr(error, "exit_code", 2)
    if as_json:
        text = error.format_message()  # type: ignore[attr-defined]
        _print_json(text, code, (Fault(where="command line", found=text, next_step="see --help"),))
    else:
        error.show()  # type: ignore[attr-defined]
    return code


def _tell_defect(error: Exception, *, as_json: bool) -> int:
    """Something that was not foreseen: the traceback for a report, and one line that says what it is."""
    text = f"autotune failed, which is a defect of its own: {type(error).__name__}: {error}"
    traceback.print_exception(error)
    if as_json:
        _print_json(text, 1, ())
    else:
        Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)
    return 1


def _print_json(text: str, code: int, faults: Sequence[Fault]) -> None:
    answer = {"error": text, "exit_code": code, "faults": InputError(faults).to_json()}
    typer.echo(json.dumps(answer, indent=2))
