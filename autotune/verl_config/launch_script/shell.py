"""Follows a script's statements: assignments, branches, loops, functions; collects the commands it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from autotune.verl_config.launch_script.branches import Branches, Left
from autotune.verl_config.launch_script.syntax import Script, errors, parse
from autotune.verl_config.launch_script.text import Text, is_known, reasons, shown, unknown
from autotune.verl_config.launch_script.variables import Binding, Variables

_DEEPEST = 12
_SETS_UNKNOWN = ("read", "mapfile", "readarray", "getopts")


@dataclass(frozen=True)
class Command:
    """One command that the script starts, as far as its words are known."""

    line: int
    words: tuple[Text, ...]
    environment: Mapping[str, Text]
    """Exported variables and those set for this command alone."""
    only_if: str = ""
    """The condition that nobody can decide without running the script; empty: it always runs."""


@dataclass(frozen=True)
class Note:
    """A place of the script that is not followed."""

    line: int
    text: str
    why: str


class Shell(Branches):
    """Reads one script; after `follow`, `commands` and `notes` hold what was found."""

    def __init__(self, variables: Variables) -> None:
        """`variables`: as the script finds them."""
        super().__init__(variables)
        self.commands: list[Command] = []
        self.notes: list[Note] = []
        self._functions: dict[str, tuple[Script, Node]] = {}
        self._depth = 0

    def follow(self, text: str, first_line: int = 1) -> None:
        """Follow all statements of a script's text."""
        script = parse(text, first_line)
        for node in errors(script.root):
            self.notes.append(Note(script.line(node), _line_of(script, node), "is no Bash that can be read"))
        try:
            self._all(script, script.root)
        except Left:
            return

    def _all(self, script: Script, node: Node) -> None:
        for child in node.named_children:
            self.statement(script, child)

    def statement(self, script: Script, node: Node) -> None:
        """Follow one statement; what has no effect on variables or commands is passed over."""
        steps: dict[str, Callable[[Script, Node], object]] = {
            "variable_assignment": self._assign,
            "variable_assignments": self._all,
            "declaration_command": self._declare,
            "unset_command": self._unset,
            "command": self._command,
            "test_command": lambda script, node: None,
            "redirected_statement": self._redirected,
            "pipeline": self._all,
            "negated_command": self._all,
            "list": self.list_statement,
            "subshell": self._subshell,
            "compound_statement": self._compound,
            "do_group": self._all,
            "if_statement": self.if_statement,
            "case_statement": self.case_statement,
            "for_statement": self.for_statement,
            "c_style_for_statement": self.loop_statement,
            "while_statement": self.loop_statement,
            "function_definition": self._define,
            "ERROR": self._all,
        }
        step = steps.get(node.type)
        if step is not None:
            step(script, node)

    def _assign(self, script: Script, node: Node) -> None:
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if target is None:
            return
        name, _, index = script.text(target).partition("[")
        binding: Binding
        if value is not None and value.type == "array":
            binding = self.expansion(script).array(value)
        else:
            binding = self.expansion(script).assigned(value)
        appends = any(child.type == "+=" for child in node.children)
        if index:
            self.variables.bindings[name] = unknown(f"${{{name}}}", f"elements of {name} are set one by one")
        elif appends:
            self.variables.append(name, binding)
        else:
            self.variables.bindings[name] = binding

    def _declare(self, script: Script, node: Node) -> None:
        exports = node.children[0].type == "export"
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(script, child)
                name = script.text(child).partition("=")[0].rstrip("+")
            elif child.type in ("variable_name", "word"):
                name = script.text(child)
            else:
                continue
            if exports and name.isidentifier():
                self.variables.exported.add(name)

    def _unset(self, script: Script, node: Node) -> None:
        for child in node.named_children:
            self.variables.bindings.pop(script.text(child), None)
            self.variables.exported.discard(script.text(child))

    def _command(self, script: Script, node: Node) -> None:
        expansion = self.expansion(script)
        own: dict[str, Text] = {}
        words: list[Text] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None:
                    own[script.text(name)] = expansion.assigned(value)
            elif child.type == "command_name":
                words += expansion.words(child.named_children[0]) if child.named_children else []
            elif "redirect" not in child.type:
                words += expansion.words(child)
        if words and not self._builtin(script, node, words):
            self.commands.append(
                Command(
                    line=script.line(node),
                    words=tuple(words),
                    environment={**self._exports(), **own},
                    only_if=" and ".join(self.only_if),
                )
            )

    def _exports(self) -> dict[str, Text]:
        names = sorted(self.variables.exported)
        return {name: self.variables.get(name, f"${name}") for name in names if self.variables.is_set(name)}

    def _builtin(self, script: Script, node: Node, words: list[Text]) -> bool:
        """Follow what changes the shell itself; False for a command that is started."""
        name, rest = shown(words[0]), words[1:]
        if name in self._functions:
            self._call(name, rest)
        elif name in ("exit", "return", "break", "continue"):
            raise Left("failure" if name == "exit" and _count(rest, 0) else name)
        elif name in ("eval", "bash", "sh"):
            return self._inner_script(script, node, name, rest)
        else:
            return self._changes_variables(script, node, name, rest)
        return True

    def _changes_variables(self, script: Script, node: Node, name: str, rest: list[Text]) -> bool:
        if name in ("source", "."):
            self.variables.sourced.append(" ".join(shown(word) for word in rest[:1]))
        elif name in ("cd", "pushd", "popd"):
            self._move(script, node)
        elif name == "shift":
            del self.variables.arguments[: _count(rest, 1)]
        elif name == "set":
            self._set(rest)
        elif name in _SETS_UNKNOWN:
            self._forget(script, node, name, rest)
        else:
            return False
        return True

    def _forget(self, script: Script, node: Node, name: str, rest: list[Text]) -> None:
        for variable in filter(str.isidentifier, map(shown, rest)):
            why = f"line {script.line(node)}: `{name}` sets {variable} from outside"
            self.variables.bindings[variable] = unknown(f"${{{variable}}}", why)

    def _move(self, script: Script, node: Node) -> None:
        if "PWD" in self.variables.outer:
            why = f"line {script.line(node)}: `{script.text(node)}` changes the folder"
            self.variables.bindings["PWD"] = unknown("$PWD", why)

    def _set(self, rest: list[Text]) -> None:
        texts = [shown(word) for word in rest]
        if "--" in texts:
            self.variables.arguments = rest[texts.index("--") + 1 :]

    def _inner_script(self, script: Script, node: Node, name: str, rest: list[Text]) -> bool:
        """`bash -c "text"` and `eval text`: the text is followed where it is known."""
        if name != "eval":
            flags = [index for index, word in enumerate(rest) if shown(word).startswith("-")]
            flag = next((index for index in flags if "c" in shown(rest[index])), None)
            if flag is None or flag + 1 >= len(rest):
                return False
            rest = rest[flag + 1 : flag + 2]
        text = " ".join(shown(word) for word in rest)
        if any(not is_known(word) for word in rest) and "verl" in text:
            why = f"what `{name}` runs is put together from unknown parts: {reasons(rest[0])}"
            self.notes.append(Note(script.line(node), text, why))
        elif self._depth < _DEEPEST:
            self._depth += 1
            self.follow(text, script.line(node))
            self._depth -= 1
        return True

    def _define(self, script: Script, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._functions[script.text(name)] = (script, body)

    def _call(self, name: str, arguments: list[Text]) -> None:
        if self._depth >= _DEEPEST:
            return
        script, body = self._functions[name]
        outer, self.variables.arguments = self.variables.arguments, list(arguments)
        self._depth += 1
        try:
            self.statement(script, body)
        except Left as left:
            if left.how in ("exit", "failure"):
                raise
        finally:
            self._depth -= 1
            self.variables.arguments = outer

    def _redirected(self, script: Script, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is not None:
            self.statement(script, body)

    def _subshell(self, script: Script, node: Node) -> None:
        outer = self.variables
        self.variables = outer.copy()
        try:
            self._all(script, node)
        except Left:
            pass
        finally:
            self.variables = outer

    def _compound(self, script: Script, node: Node) -> None:
        if node.children[0].type == "((":
            self._forget_numbers(script, node)
        else:
            self._all(script, node)

    def _forget_numbers(self, script: Script, node: Node) -> None:
        """`(( i++ ))` and `(( n = 3 ))`: what they change is not followed."""
        text = script.text(node)
        changes = [
            child for child in node.named_children if child.type == "postfix_expression" or "=" in text
        ]
        for child in changes:
            name = script.text(child).split("=")[0].strip(" +-*/()")
            if name.isidentifier() and "==" not in text:
                why = f"line {script.line(node)}: `{text}` is not followed"
                self.variables.bindings[name] = unknown(f"${{{name}}}", why)


def _count(rest: list[Text], default: int) -> int:
    text = shown(rest[0]) if rest else str(default)
    return int(text) if text.isdigit() else 0


def _line_of(script: Script, node: Node) -> str:
    start = script.source.rfind(b"\n", 0, node.start_byte) + 1
    end = script.source.find(b"\n", node.start_byte)
    return script.between(start, len(script.source) if end < 0 else end).strip()
