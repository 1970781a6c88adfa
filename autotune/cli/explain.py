"""`autotune explain LOG`: why any verl run ended, read from its console log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, BinaryIO

import typer

from autotune.cli.printing import print_json
from autotune.errors import Fault, InputError
from autotune.judge.explain import Explanation
from autotune.judge.explain import explain as explain_log
from autotune.records import Value
from autotune.search.levers import levers
from autotune.search.move import Move


def explain(
    log: str = typer.Argument(..., metavar="LOG", help="Console log of any verl run; - for standard input."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Say why a verl run ended: kind, phase, decisive line, cause, and what to change."""
    found = _read(log)
    moves = levers(found.kind, found.line.text if found.line else "", found.values)
    if as_json:
        print_json(_json(found, moves))
    else:
        _show(found, moves)


def _read(log: str) -> Explanation:
    if log == "-":
        return explain_log(sys.stdin.buffer)
    try:
        with _opened(Path(log)) as stream:
            return explain_log(stream)
    except OSError as error:
        raise InputError(
            Fault(
                where=log,
                found=error.strerror or str(error),
                allowed="a console log, or - for standard input",
                next_step="name the file that holds verl's output",
            )
        ) from None


def _opened(path: Path) -> BinaryIO:
    return path.open("rb")


def _json(found: Explanation, moves: list[Move]) -> dict[str, Any]:
    line = found.line
    return {
        "kind": found.kind,
        "phase": found.phase,
        "group": found.group.value if found.group else None,
        "line": {"number": line.line_number, "text": line.text} if line else None,
        "cause": found.cause,
        "levers": [move.to_json() for move in moves],
        "retry": found.retry,
        "finished": found.finished,
        "steps": found.steps,
        "steps_asked": found.steps_asked,
        "also": [
            {"kind": other.kind, "number": other.line_number, "text": other.text} for other in found.also
        ],
        "last_lines": [{"number": number, "text": text} for number, text in found.last_lines],
        "lines_read": found.lines_read,
    }


def _show(found: Explanation, moves: list[Move]) -> None:
    if found.kind is None:
        typer.echo(found.cause)
        return
    group = found.group.value if found.group else ""
    typer.echo(f"{found.kind}  ({group}, phase {found.phase}, {found.steps} steps made)")
    typer.echo(found.cause)
    if found.line is not None:
        typer.echo(f"\nline {found.line.line_number}: {found.line.text}")
    for other in found.also:
        typer.echo(f"also line {other.line_number} ({other.kind}): {other.text[:160]}")
    if moves:
        typer.echo("\nchange one at a time, in this order:")
    for move in moves:
        typer.echo(f"  {move.key}: {_told(move.before)} -> {_told(move.after)}   {move.why}")
    if found.last_lines:
        typer.echo("\nthe last lines:")
    for number, text in found.last_lines:
        typer.echo(f"  {number}: {text[:200]}")
    typer.echo(
        f"\n{'try the same configuration again' if found.retry else 'no use in trying the same again'}"
    )


def _told(value: Value) -> str:
    return "?" if value is None else str(value)
