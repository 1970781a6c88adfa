"""The `autotune` command: registers the commands and turns errors into messages and exit codes."""

from __future__ import annotations

import json
import sys

import click
import typer
from rich.console import Console

from autotune import __version__
from autotune.cli import dashboard, export, init, run, show, status, trials
from autotune.errors import AutotuneError, InputError

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
app.command("export")(export.export)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit()


def main() -> None:
    """Entry point; exits 0 done, 2 bad input, 3 nothing feasible, 4 stopped, resumable, 1 anything else."""
    sys.exit(exit_code_of(sys.argv[1:]))


def exit_code_of(arguments: list[str]) -> int:
    """Runs one command line; everything raised on purpose becomes one message and its exit code."""
    try:
        code = app(arguments, standalone_mode=False)
    except AutotuneError as error:
        _tell(error, as_json="--json" in arguments)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        Console(stderr=True).print("stopped")
        return 4
    return code if isinstance(code, int) else 0


def _tell(error: AutotuneError, *, as_json: bool) -> None:
    if as_json:
        faults = error.to_json() if isinstance(error, InputError) else []
        typer.echo(
            json.dumps({"error": str(error), "exit_code": error.exit_code, "faults": faults}, indent=2)
        )
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not isinstance(error, InputError):
        console.print(str(error), markup=False)
        return
    for fault in error.faults:
        console.print(f"{fault.where}{': ' + fault.key if fault.key else ''}", style="bold red", markup=False)
        for name, text in (("found", fault.found), ("allowed", fault.allowed), ("next", fault.next_step)):
            if text:
                console.print(f"  {name:<8}{text}", markup=False)
