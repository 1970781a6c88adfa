"""Writes fixes into the user's own file: line by line, so that comments and order stay."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from autotune.errors import JobFileError
from autotune.job.yaml_source import KeyPath, YamlSource, parse_yaml
from autotune.records import Value
from autotune.verl_config.rules.rule import Finding

_LINE = re.compile(
    r"^(?P<head>\s*(?P<quote>['\"]?)\+*[^'\"#\s][^'\"]*?(?P=quote)\s*:)(?P<value>[^\n]*?)"
    r"(?P<comment>\s+#[^\n]*)?(?P<end>\n?)$"
)


@dataclass(frozen=True)
class Mended:
    """A text with fixes in it."""

    text: str
    done: tuple[str, ...]
    """Rules whose fix was written."""
    left: tuple[str, ...]
    """Keys whose fix has no place that can be edited line by line."""


def mended(source: YamlSource, text: str, prefix: KeyPath, findings: Sequence[Finding]) -> Mended:
    """`text` with the findings' fixes written in; what cannot be written is named, never guessed.

    Args:
        source: The parsed file.
        text: Its text.
        prefix: Where verl's keys stand: below it they are dotted in a job file, nested in a YAML of
            verl, whose prefix is empty.
        findings: What to mend; those without a fix are passed over.
    """
    done: list[str] = []
    left: list[str] = []
    for finding in findings:
        if finding.fix is None:
            continue
        attempt = _one(source, text, prefix, finding.fix.set, finding.fix.remove)
        if attempt is None:
            left.append(finding.key)
            continue
        source, text = attempt
        done.append(finding.rule)
    return Mended(text, tuple(done), tuple(left))


def _one(
    source: YamlSource, text: str, prefix: KeyPath, to_set: Mapping[str, Value], to_remove: Sequence[str]
) -> tuple[YamlSource, str] | None:
    """The file after one fix, None where it cannot be written or does not read back as meant."""
    for key, value in to_set.items():
        new = _with_value(source, text, prefix, key, value)
        if new is None:
            return None
        parsed = _parsed(new, source.where)
        if parsed is None or _value_at(parsed, prefix, key) != value:
            return None
        source, text = parsed, new
    for key in to_remove:
        path = _path(source, prefix, key)
        if path is None:
            continue
        new = _without(source, text, path)
        parsed = _parsed(new, source.where) if new is not None else None
        if new is None or parsed is None or _path(parsed, prefix, key) is not None:
            return None
        source, text = parsed, new
    return source, text


def _parsed(text: str, where: str) -> YamlSource | None:
    try:
        return parse_yaml(text, where, "file")
    except JobFileError:
        return None


def _path(source: YamlSource, prefix: KeyPath, key: str) -> KeyPath | None:
    """Where the key stands, with any leading `+`; None where it does not."""
    spellings = [(*prefix, mark + key) for mark in ("", "+", "++")] if prefix else [tuple(key.split("."))]
    return next((path for path in spellings if path in source.lines), None)


def _value_at(source: YamlSource, prefix: KeyPath, key: str) -> Value:
    path = _path(source, prefix, key)
    value = source.value
    for part in path or ():
        value = value[part]
    return value if path is not None else None


def _with_value(source: YamlSource, text: str, prefix: KeyPath, key: str, value: Value) -> str | None:
    path = _path(source, prefix, key)
    if path is None:
        return _added(source, text, prefix, key, value)
    lines = text.splitlines(keepends=True)
    index = source.lines[path] - 1
    found = _LINE.match(lines[index])
    if found is None or _extent(lines, index) > 1:
        return None
    comment, end = found["comment"] or "", found["end"]
    lines[index] = f"{found['head']} {_as_yaml(value)}{comment}{end}"
    return "".join(lines)


def _added(source: YamlSource, text: str, prefix: KeyPath, key: str, value: Value) -> str | None:
    """The key behind the last line of its section, in that section's indentation."""
    parts = [key] if prefix else key.split(".")
    parent = (*prefix, *parts[:-1])
    lines = text.splitlines(keepends=True)
    siblings = [path for path in source.lines if path[:-1] == parent and len(path) == len(parent) + 1]
    if not siblings:
        return _added_section(source, text, parts, value) if not prefix else None
    last = max(siblings, key=lambda path: source.lines[path])
    index = source.lines[last] - 1
    match = re.match(r"^(\s*)['\"+\w]", lines[index])
    if match is None:
        return None
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    lines.insert(index + _extent(lines, index), f"{match[1]}{parts[-1]}: {_as_yaml(value)}\n")
    return "".join(lines)


def _added_section(source: YamlSource, text: str, parts: Sequence[str], value: Value) -> str | None:
    """The nearest section that is there takes the missing ones in flow style: `optim: {clip_grad: 0.1}`."""
    if len(parts) < 2:
        return None
    inner: dict[str, Value] = {parts[-1]: value}
    return _added(source, text, (), ".".join(parts[:-1]), inner)


def _without(source: YamlSource, text: str, path: KeyPath) -> str | None:
    lines = text.splitlines(keepends=True)
    index = source.lines[path] - 1
    if _LINE.match(lines[index]) is None:
        return None
    del lines[index : index + _extent(lines, index)]
    return "".join(lines)


def _extent(lines: Sequence[str], index: int) -> int:
    """Lines of the key at `index` with what is nested below it; blank and comment lines end it."""
    depth = len(lines[index]) - len(lines[index].lstrip())
    count = 1
    for line in lines[index + 1 :]:
        bare = line.strip()
        deeper = len(line) - len(line.lstrip()) > depth
        listed = bare.startswith("- ") and len(line) - len(line.lstrip()) == depth
        if not bare or bare.startswith("#") or not (deeper or listed):
            break
        count += 1
    return count


def _as_yaml(value: Value) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip()
    return text.removesuffix("...").strip()
