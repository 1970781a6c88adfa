"""The door: a launch script's text to what it starts verl with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import Fault, InputFileError
from autotune.records import Value
from autotune.verl_config.launch_script.command_line import Invocation, arguments, invocation, is_stray
from autotune.verl_config.launch_script.shell import Command, Shell
from autotune.verl_config.launch_script.text import is_known, reasons, shown
from autotune.verl_config.launch_script.variables import Variables

SYMBOLIC: Mapping[str, str] = {"HOME": "$HOME", "PWD": "$PWD", "USER": "$USER"}
"""Outer variables that stay names, so that a job is good for every user of the script."""


@dataclass(frozen=True)
class Unresolved:
    """Something that the script's text alone does not tell."""

    line: int
    """1-based."""
    text: str
    """As the command would have it, with shell text in the unknown parts' place."""
    why: str
    key: str = ""
    """verl's dotted key where it is an override, with its `+`."""


@dataclass(frozen=True)
class LaunchScript:
    """What a launch script starts verl with."""

    line: int
    """1-based, of verl's command."""
    entry: str
    """Python module that is started with `python -m`."""
    config_path: str | None
    """As written: Hydra takes a relative one from the entry's own folder."""
    config_name: str | None
    overrides: dict[str, Value]
    """verl's dotted keys, a leading `+` kept (`++` becomes `+`); values by Hydra's override grammar."""
    environment: dict[str, str]
    """Exported variables and those set for the command alone, where they are known."""
    unresolved: tuple[Unresolved, ...] = ()
    """What is left out of the above, each with its line and reason."""


def read_launch_script(path: Path, outer: Mapping[str, str] = SYMBOLIC) -> LaunchScript:
    """Read a launch script's file; `outer` as in `parse_launch_script`.

    Raises:
        InputFileError: no such file, or no command in it that starts a verl training.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        fault = Fault(
            where=str(path),
            found=error.strerror or "unreadable",
            allowed="a launch script or a verl YAML",
            next_step="correct the path",
        )
        raise InputFileError(fault) from None
    return parse_launch_script(text, str(path), outer)


def parse_launch_script(
    text: str, where: str = "launch script", outer: Mapping[str, str] = SYMBOLIC
) -> LaunchScript:
    """What the script would start verl with if it ran without arguments. Nothing is executed.

    Of several verl trainings, the first one is read and the others are named as unresolved.

    Args:
        text: The script.
        where: Its name in messages.
        outer: Variables that are set before it starts; every other one has only what the script gives it.

    Raises:
        InputFileError: no command in it starts a verl training.
    """
    shell = Shell(Variables(outer))
    shell.follow(text)
    trainings = [
        found for found in map(invocation, shell.commands) if found is not None and found.is_training
    ]
    if not trainings:
        raise InputFileError(_no_training(where, shell))
    chosen = next((one for one in trainings if one.entry.endswith("main_ppo")), trainings[0])
    said = arguments(chosen.arguments)
    line = chosen.command.line
    unresolved = [Unresolved(note.line, note.text, note.why) for note in shell.notes]
    if chosen.command.only_if:
        unresolved.append(Unresolved(line, chosen.entry, f"is started or not: {chosen.command.only_if}"))
    unresolved += [Unresolved(line, shown_text, why, key) for key, shown_text, why in said.left]
    unresolved += _strays(shell.commands)
    unresolved += _others(trainings, chosen)
    environment, unknown = _environment(chosen.command)
    return LaunchScript(
        line=line,
        entry=_module(chosen.entry),
        config_path=said.config_path,
        config_name=None if said.config_name is None else said.config_name.removesuffix(".yaml"),
        overrides=said.overrides,
        environment=environment,
        unresolved=tuple(sorted([*unresolved, *unknown], key=lambda one: one.line)),
    )


def _strays(commands: list[Command]) -> list[Unresolved]:
    why = "never reaches verl: the line before it ends the command (a comment, or a missing backslash)"
    return [
        Unresolved(command.line, shown(word), why)
        for command in commands
        if is_stray(command)
        for word in command.words
    ]


def _others(trainings: list[Invocation], chosen: Invocation) -> list[Unresolved]:
    why = f"another training of the same script; only the one in line {chosen.command.line} is read"
    return [Unresolved(one.command.line, one.entry, why) for one in trainings if one is not chosen]


def _environment(command: Command) -> tuple[dict[str, str], list[Unresolved]]:
    known = {name: shown(text) for name, text in command.environment.items() if is_known(text)}
    unknown = [
        Unresolved(command.line, f"{name}={shown(text)}", f"environment variable: {reasons(text)}")
        for name, text in command.environment.items()
        if not is_known(text)
    ]
    return known, unknown


def _module(entry: str) -> str:
    """A `.py` file below the working directory as the module that `python -m` takes."""
    if not entry.endswith(".py") or entry.startswith(("/", "$", "~", "..")):
        return entry
    return entry.removeprefix("./").removesuffix(".py").replace("/", ".")


def _no_training(where: str, shell: Shell) -> Fault:
    started = [found.entry for found in map(invocation, shell.commands) if found is not None]
    notes = [f"line {note.line}: {note.why}" for note in shell.notes]
    return Fault(
        where=where,
        found="; ".join(
            [f"Python programs: {', '.join(started)}" if started else "no Python program", *notes]
        ),
        allowed="a command such as `python3 -m verl.trainer.main_ppo key=value ...`",
        next_step="name the script that starts the training itself",
    )
