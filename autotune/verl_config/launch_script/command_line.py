"""verl's own command among those of a script: its entry, Hydra's options and the overrides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException

from autotune.records import Value
from autotune.verl_config.launch_script.shell import Command
from autotune.verl_config.launch_script.text import Text, is_known, reasons, shown

_PYTHON = re.compile(r"(.*/)?(python[\d.]*|torchrun)")
_OVERRIDE = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>[A-Za-z_][\w.@/-]*)=(?P<value>.*)", re.DOTALL)
_DELETION = re.compile(r"~[A-Za-z_][\w.@/]*")
_PATH_FLAGS = ("--config-path", "-cp")
_NAME_FLAGS = ("--config-name", "-cn")
_OTHER_VALUE_FLAGS = ("--config-dir", "-cd", "--package", "-p", "--experimental-rerun")
_PROBES = ("main_generation", "main_eval", "main_generation_server")
"""verl's entries beside training: they generate or score with a model that is there."""


@dataclass(frozen=True)
class Invocation:
    """A Python program that a script starts, and its arguments."""

    command: Command
    entry: str
    """Python module, or the path of a `.py` file as it is written."""
    arguments: tuple[Text, ...]

    @property
    def is_training(self) -> bool:
        """True where the arguments and the name are those of a verl trainer."""
        last = self.entry.removesuffix(".py").replace("/", ".").rsplit(".", 1)[-1]
        keys = [match["key"] for match in map(_matched, self.arguments) if match]
        of_trainer = any(key.startswith(("actor_rollout_ref.", "algorithm.")) for key in keys)
        a_main = self.entry.startswith(("verl.", "recipe.")) and last.startswith("main")
        return (of_trainer or a_main) and last not in _PROBES


@dataclass
class Arguments:
    """What an invocation says to Hydra."""

    config_path: str | None = None
    config_name: str | None = None
    overrides: dict[str, Value] = field(default_factory=dict)
    left: list[tuple[str, str, str]] = field(default_factory=list)
    """(key, shell text, why) of what could not be taken over; the key is empty where there is none."""


def invocation(command: Command) -> Invocation | None:
    """The Python program that a command starts, behind any launcher (`ray job submit --`, `srun`...)."""
    texts = [shown(word) for word in command.words]
    for index, text in enumerate(texts):
        if not _PYTHON.fullmatch(text) and not _runs_verl(texts[index + 1 : index + 3]):
            continue
        for place in range(index + 1, len(texts)):
            if texts[place] == "-m" and place + 1 < len(texts):
                return Invocation(command, texts[place + 1], command.words[place + 2 :])
            if texts[place].endswith(".py"):
                return Invocation(command, texts[place], command.words[place + 1 :])
            if texts[place] == "-c" or _OVERRIDE.fullmatch(texts[place]):
                break
    return None


def _runs_verl(after: list[str]) -> bool:
    """An interpreter of another name, perhaps unknown (`$PYTHON`), shows by what follows."""
    return len(after) == 2 and after[0] == "-m" and after[1].startswith(("verl.", "recipe."))


def is_stray(command: Command) -> bool:
    """True for a line of overrides that no command takes: the line before it ended the command."""
    first = command.words[0]
    match = _matched(first)
    return match is not None and is_known(first) and "." in match["key"]


def arguments(words: Sequence[Text]) -> Arguments:
    """The arguments of a verl entry; values are what Hydra's own override grammar makes of them."""
    found = Arguments()
    rest = iter(words)
    for word in rest:
        text = shown(word)
        flag, equals, value = text.partition("=")
        if flag in (*_PATH_FLAGS, *_NAME_FLAGS, *_OTHER_VALUE_FLAGS):
            _take_flag(found, flag, value if equals else _next(rest))
        elif text.startswith("-"):
            found.left.append(("", text, "is no override; Hydra's option is not carried over"))
        else:
            _take_override(found, word)
    return found


def _take_flag(found: Arguments, flag: str, value: str | Text) -> None:
    text = value if isinstance(value, str) else shown(value)
    if not isinstance(value, str) and not is_known(value):
        found.left.append(("", f"{flag} {text}", reasons(value)))
    elif flag in _PATH_FLAGS:
        found.config_path = text
    elif flag in _NAME_FLAGS:
        found.config_name = text
    else:
        found.left.append(("", f"{flag} {text}", "Hydra's option is not carried over"))


def _take_override(found: Arguments, word: Text) -> None:
    text, match = shown(word), _matched(word)
    sign, key = (match["sign"] or "", match["key"]) if match else ("", "")
    if not is_known(word):
        found.left.append((sign[:1].strip("~") + key, text, reasons(word)))
        return
    if _DELETION.fullmatch(text) or sign == "~":
        found.left.append((key, text, "takes a key away, which a job's overrides cannot say"))
        return
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        found.left.append((key, text, f"Hydra does not take it: {' '.join(str(error).split())}"))
        return
    if match is None or override.type == OverrideType.DEL:
        found.left.append((key, text, "is no override"))
    elif override.is_sweep_override():
        found.left.append((key, text, "sweeps over several values, where a job has one"))
    else:
        _keep(found, f"{'+' if sign else ''}{key}", _plain(override.value()))


def _keep(found: Arguments, key: str, value: Value) -> None:
    """The last value of a key counts, as in Hydra."""
    bare = key.lstrip("+")
    for other in (bare, f"+{bare}"):
        found.overrides.pop(other, None)
    found.left = [one for one in found.left if one[0].lstrip("+") != bare]
    found.overrides[key] = value


def _plain(value: object) -> Value:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _next(rest: Iterator[Text]) -> Text:
    return next(rest, ())


def _matched(word: Text) -> re.Match[str] | None:
    return _OVERRIDE.fullmatch(shown(word))
