"""The variables of a script at one point of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autotune.verl_config.launch_script.text import Text, known, shown, unknown

Array = list[Text]
Binding = Text | Array


@dataclass
class Variables:
    """What each name stands for. Arguments of the script: none, as `bash run.sh` would start it."""

    outer: Mapping[str, str]
    """Variables that the script finds set when it starts."""
    bindings: dict[str, Binding] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    arguments: Array = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    """Files that the script reads in, which may set anything."""

    def copy(self) -> Variables:
        """The same state, to follow a branch with."""
        return replace(
            self,
            bindings=dict(self.bindings),
            exported=set(self.exported),
            arguments=list(self.arguments),
            sourced=list(self.sourced),
        )

    def is_set(self, name: str) -> bool:
        """True where the script, its caller's environment or its arguments define the name."""
        if name.isdigit():
            return 0 < int(name) <= len(self.arguments)
        return name in self.bindings or name in self.outer

    def get(self, name: str, written: str) -> Text:
        """The value of a scalar (an array's first element); `written` stays where there is none."""
        if name == "#":
            return known(str(len(self.arguments)))
        if name in {"@", "*"}:
            return _joined(self.arguments)
        if not self.is_set(name):
            return unknown(written, self._why_unset(name))
        if name.isdigit():
            return self.arguments[int(name) - 1]
        binding = self.bindings[name] if name in self.bindings else known(self.outer[name])
        if isinstance(binding, list):
            return binding[0] if binding else known("")
        return binding

    def elements(self, name: str, written: str) -> Array:
        """All elements of an array; a scalar is an array of one, an unset name of none."""
        if name in {"@", "*"}:
            return list(self.arguments)
        if not self.is_set(name):
            return [unknown(written, self._why_unset(name))] if self.sourced else []
        binding = self.bindings.get(name)
        return list(binding) if isinstance(binding, list) else [self.get(name, written)]

    def append(self, name: str, value: Binding) -> None:
        """`name+=value`."""
        before = self.bindings.get(name)
        if isinstance(value, list):
            start: Array = before if isinstance(before, list) else [before] if before else []
            self.bindings[name] = [*start, *value]
        elif isinstance(before, list):
            first = before[0] if before else ()
            self.bindings[name] = [(*first, *value), *before[1:]]
        else:
            start_text = before or (known(self.outer[name]) if name in self.outer else ())
            self.bindings[name] = (*start_text, *value)

    def _why_unset(self, name: str) -> str:
        if name.isdigit():
            return f"argument {name} of the script, which was read as started without arguments"
        if not (name[:1].isalpha() or name[:1] == "_"):
            return f"${name} is known only to a running shell"
        perhaps = f" (perhaps in {', '.join(self.sourced)}, which is not read)" if self.sourced else ""
        return f"{name} is not set in the script{perhaps}"


def merged(before: Variables, branches: list[Variables], why: str) -> Variables:
    """The state after branches of which nobody knows which one ran: what differs is unknown."""
    after = before.copy()
    names = dict.fromkeys(name for branch in branches for name in branch.bindings)
    for name in names:
        values = [branch.bindings.get(name) for branch in branches]
        if all(value == values[0] for value in values):
            assert values[0] is not None
            after.bindings[name] = values[0]
        elif any(isinstance(value, list) for value in values):
            after.bindings[name] = _merged_arrays([value for value in values if value is not None], why)
        else:
            after.bindings[name] = unknown(f"${{{name}}}", why)
    after.exported = set().union(*(branch.exported for branch in branches))
    after.sourced = list(dict.fromkeys(file for branch in branches for file in branch.sourced))
    return after


def _merged_arrays(values: list[Binding], why: str) -> Array:
    """What all branches begin with; whatever comes after is named with the reason."""
    arrays: list[Array] = [value if isinstance(value, list) else [value] for value in values]
    shortest = min(len(array) for array in arrays)
    same = next(
        (index for index in range(shortest) if any(array[index] != arrays[0][index] for array in arrays)),
        shortest,
    )
    rest = dict.fromkeys(element for array in arrays for element in array[same:])
    return [*arrays[0][:same], *(unknown(shown(element), why) for element in rest)]


def _joined(texts: Array) -> Text:
    pieces: list[Text] = []
    for index, text in enumerate(texts):
        pieces += [known(" "), text] if index else [text]
    return tuple(piece for text in pieces for piece in text)
