"""`autotune check TARGET`: what is wrong with a configuration, before a GPU is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import typer

from autotune.cli.memory_answer import known_model, machine_of, memory_answer
from autotune.cli.printing import print_json
from autotune.job.paths import write_atomic
from autotune.verl_config.mending import Mended, mended
from autotune.verl_config.rules.rule import Finding, Setting, Severity
from autotune.verl_config.rules.table import findings
from autotune.verl_config.target import Target, read_target, setting_of

_FIX_ROUNDS = 3
_CLEAN, _FAULTY, _DOES_NOT_FIT = 0, 2, 3


def check(
    target: Path = typer.Argument(..., help="A job file, a YAML of verl, or a launch script."),
    verl_version: Optional[str] = typer.Option(
        None, "--verl-version", help="Check against this verl, 0.6.1 to 0.9.1; default: the installed one."
    ),
    gpus: Optional[str] = typer.Option(
        None, "--gpus", help="The target machine, such as 8xH100-80GB; default: what the file says."
    ),
    fix: bool = typer.Option(False, "--fix", help="Write the fixes into the file."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Find unknown, dead and misplaced keys, refused combinations and traps."""
    read = read_target(target)
    machine = machine_of(gpus)

    def setting_now() -> Setting:
        return setting_of(read, version=verl_version, gpus=machine.gpus, known_model=known_model)

    setting = setting_now()
    found = findings(setting)
    written: Mended | None = None
    for _ in range(_FIX_ROUNDS if fix else 0):
        # A key put in its place may turn out to be a dead one there.
        now = _write_fixes(read, found)
        written = now if written is None else Mended(now.text, written.done + now.done, now.left)
        if not now.done:
            break
        read = read_target(target)
        setting = setting_now()
        found = findings(setting)
    forecast = memory_answer(setting, machine)
    if as_json:
        print_json(_json(setting, found, forecast, written))
    else:
        _show(setting, found, written, fix_asked=fix)
        _show_forecast(forecast)
    return _exit_code(found, forecast)


def _exit_code(found: Sequence[Finding], forecast: dict[str, Any] | None) -> int:
    if any(finding.severity is not Severity.NOTE for finding in found):
        return _FAULTY
    if forecast is not None and not forecast["fits"]:
        return _DOES_NOT_FIT
    return _CLEAN


def _write_fixes(target: Target, found: Sequence[Finding]) -> Mended:
    """Only what is wrong: a note is for a person to decide."""
    faults = [finding for finding in found if finding.severity is not Severity.NOTE]
    if target.source is None:
        return Mended("", (), tuple(finding.key for finding in faults if finding.fix))
    written = mended(target.source, target.path.read_text(encoding="utf-8"), target.prefix, faults)
    if written.done:
        write_atomic(target.path, written.text)
    return written


def _json(
    setting: Setting, found: Sequence[Finding], forecast: dict[str, Any] | None, written: Mended | None
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "verl_version": setting.schema.version,
        "gpus": setting.gpus,
        "findings": [finding.to_json() for finding in found],
        "forecast": forecast,
    }
    if written is not None:
        answer["fixed"], answer["not_fixed"] = list(written.done), list(written.left)
    return answer


def _show(setting: Setting, found: Sequence[Finding], written: Mended | None, *, fix_asked: bool) -> None:
    for finding in found:
        typer.echo(f"{finding.severity.value:<8}{finding.rule}  {finding.key}: {finding.found}")
        typer.echo(f"        {finding.message}")
        if finding.fix is not None and not fix_asked:
            for key, value in finding.fix.set.items():
                typer.echo(f"        fix: {key}={value}")
            for key in finding.fix.remove:
                typer.echo(f"        fix: leave {key} out")
    if written is not None:
        typer.echo(f"fixed: {', '.join(written.done) or 'nothing'}")
        for key in written.left:
            typer.echo(f"not fixed, edit it by hand: {key}")
    counts = {severity: sum(f.severity is severity for f in found) for severity in Severity}
    told = ", ".join(f"{count} {severity.value}{'s' * (count != 1)}" for severity, count in counts.items())
    typer.echo(f"verl {setting.schema.version}, {setting.gpus} GPUs: {told}")


def _show_forecast(forecast: dict[str, Any] | None) -> None:
    if forecast is None:
        typer.echo("no memory forecast: name the machine with --gpus 8xH100-80GB, and a model that is known")
        return
    for phase in forecast["phases"]:
        term = max(phase["terms"], key=phase["terms"].__getitem__)
        typer.echo(f"  {phase['phase']:<16}{phase['peak_gb']:8.1f} GB, most of it {term}")
    verdict = "fits" if forecast["fits"] else "does not fit"
    typer.echo(f"{verdict} into {forecast['capacity_gb']:.1f} GB a GPU; the largest that fit by themselves:")
    for key, value in forecast["largest"].items():
        typer.echo(f"  {key}: {value}")
