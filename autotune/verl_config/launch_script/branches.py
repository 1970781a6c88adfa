"""Branches and loops: followed where the text decides them, merged into the unknown where it does not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from tree_sitter import Node

from autotune.verl_config.launch_script.arithmetic import Undecided
from autotune.verl_config.launch_script.conditions import Conditions
from autotune.verl_config.launch_script.expansion import Expansion
from autotune.verl_config.launch_script.parameters import matches
from autotune.verl_config.launch_script.syntax import Script
from autotune.verl_config.launch_script.text import is_known, reasons, shown, unknown
from autotune.verl_config.launch_script.variables import Variables, merged

_MOST_ROUNDS = 256
_ASKING = (
    "grep",
    "egrep",
    "pgrep",
    "command",
    "which",
    "type",
    "test",
    "diff",
    "cmp",
    "nvidia-smi",
    "mountpoint",
)
"""Commands whose outcome is an answer, where that of others is an accident."""


class Left(Exception):  # noqa: N818, control flow of the script
    """The script, a function or a loop is left here: `exit` (`failure` with a code), `return`, `break`..."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Branches(ABC):
    """Decides which statements run; what a statement does is the subclass's."""

    variables: Variables

    def __init__(self, variables: Variables) -> None:
        """`variables`: as the script finds them."""
        self.variables = variables
        self.only_if: list[str] = []

    @abstractmethod
    def statement(self, script: Script, node: Node) -> None:
        """Follow one statement."""

    def expansion(self, script: Script) -> Expansion:
        """Works out words with the variables of this point."""
        return Expansion(script, self.variables)

    def list_statement(self, script: Script, node: Node) -> None:
        """`a && b`, `a || b`: one that acts is taken to succeed, the answer of one that asks is unknown."""
        left, right = node.named_children[0], node.named_children[-1]
        wants = next((child.type for child in node.children if child.type in ("&&", "||")), "&&") == "&&"
        if left.type not in ("test_command", "compound_statement"):
            self.statement(script, left)
        try:
            holds = self._succeeds(script, left)
        except Undecided as undecided:
            arms: list[Callable[[], None]] = [partial(self.statement, script, right), _nothing]
            self._either(arms, _condition(script, left, undecided))
            return
        if holds == wants:
            self.statement(script, right)

    def _succeeds(self, script: Script, node: Node) -> bool:
        if node.type in ("command", "redirected_statement", "pipeline"):
            words = script.text(node).split()
            if words == ["false"]:
                return False
            if words and words[0] in _ASKING:
                raise Undecided("the outcome of a command")
            return True
        return self._decide(script, node)

    def _decide(self, script: Script, node: Node) -> bool:
        """Whether a condition holds; Undecided where running commands or files would tell."""
        conditions = Conditions(script, self.expansion(script))
        if node.type == "test_command" or (
            node.type == "compound_statement" and node.children[0].type == "(("
        ):
            return conditions.test(node)
        if node.type == "negated_command":
            return not self._decide(script, node.named_children[-1])
        if node.type == "list":
            return self._decide_list(script, node)
        if node.type in ("variable_assignment", "declaration_command"):
            return True
        text = script.text(node).strip()
        if text in ("true", ":", "false"):
            return text != "false"
        raise Undecided("the outcome of a command")

    def _decide_list(self, script: Script, node: Node) -> bool:
        left, right = node.named_children[0], node.named_children[-1]
        sign = next(child.type for child in node.children if child.type in ("&&", "||"))
        try:
            first = self._decide(script, left)
        except Undecided:
            # `unknown && false` is false all the same.
            if self._decide(script, right) == (sign == "||"):
                return sign == "||"
            raise
        return self._decide(script, right) if first == (sign == "&&") else first

    def if_statement(self, script: Script, node: Node) -> None:
        """`if ... elif ... else`."""
        self._branch(script, _arms(script, node))

    def _branch(self, script: Script, arms: list[tuple[Node | None, list[Node]]]) -> None:
        for index, (condition, body) in enumerate(arms):
            if condition is None:
                self._run(script, body)
                return
            try:
                holds = self._decide(script, condition)
            except Undecided as undecided:
                either = [partial(self._run, script, body), partial(self._branch, script, arms[index + 1 :])]
                self._either(either, _condition(script, condition, undecided))
                return
            if holds:
                self._guarded(script, body)
                return

    def _guarded(self, script: Script, body: list[Node]) -> None:
        """A branch that gives up (`exit 1`) asks for arguments that the script was not read with: go on."""
        try:
            self._run(script, body)
        except Left as left:
            if left.how != "failure":
                raise

    def _run(self, script: Script, body: list[Node]) -> None:
        for node in body:
            self.statement(script, node)

    def _either(self, arms: Sequence[Callable[[], None]], why: str) -> None:
        """Follow each arm; what differs afterwards is unknown, and an arm that leaves does not count."""
        before = self.variables
        ends: list[Variables] = []
        left: Left | None = None
        for arm in arms:
            self.variables = before.copy()
            self.only_if.append(why)
            try:
                arm()
                ends.append(self.variables)
            except Left as exception:
                left = exception
            finally:
                self.only_if.pop()
        self.variables = before
        if not ends and left is not None:
            raise left
        if len(ends) == 1:
            self.variables = ends[0]
        elif ends:
            self.variables = merged(before, ends, why)

    def case_statement(self, script: Script, node: Node) -> None:
        """`case ... esac`."""
        subject = node.child_by_field_name("value")
        value = self.expansion(script).value(subject)
        items = [child for child in node.named_children if child.type == "case_item"]
        if not is_known(value):
            arms: list[Callable[[], None]] = [partial(self._run, script, _case_body(item)) for item in items]
            if not any(script.text(pattern) == "*" for item in items for pattern in _patterns(item)):
                arms.append(_nothing)
            self._either(arms, f"line {script.line(node)}: `case` on something unknown: {reasons(value)}")
            return
        for item in items:
            if any(self._matches(script, shown(value), pattern) for pattern in _patterns(item)):
                self._run(script, _case_body(item))
                return

    def _matches(self, script: Script, value: str, pattern: Node) -> bool:
        if pattern.type == "extglob_pattern":
            return matches(value, script.text(pattern))
        return matches(value, shown(self.expansion(script).value(pattern)))

    # Loops

    def for_statement(self, script: Script, node: Node) -> None:
        """`for name in words`: round by round where the words are known."""
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return
        expansion = self.expansion(script)
        in_list = any(child.type == "in" for child in node.children)
        values = [word for child in node.children_by_field_name("value") for word in expansion.words(child)]
        if not in_list:
            values = list(self.variables.arguments)
        name = script.text(variable)
        if len(values) > _MOST_ROUNDS or not all(is_known(value) for value in values):
            self.variables.bindings[name] = unknown(
                f"${{{name}}}", f"line {script.line(node)}: a loop's variable"
            )
            self.loop_statement(script, node)
            return
        for value in values:
            self.variables.bindings[name] = value
            try:
                self.statement(script, body)
            except Left as left:
                if left.how == "break":
                    break
                if left.how != "continue":
                    raise

    def loop_statement(self, script: Script, node: Node) -> None:
        """A loop whose rounds nobody can count: its body may run or not."""
        body = node.child_by_field_name("body")
        condition = node.child_by_field_name("condition")
        if body is None:
            return
        why = f"line {script.line(node)}: a loop that is not followed"
        if node.type == "while_statement" and condition is not None:
            try:
                until = node.children[0].type == "until"
                if self._decide(script, condition) == until:
                    return
            except Undecided as undecided:
                why = _condition(script, condition, undecided)
        self._either([partial(self._once, script, body), _nothing], why)

    def _once(self, script: Script, body: Node) -> None:
        try:
            self.statement(script, body)
        except Left as left:
            if left.how not in ("break", "continue"):
                raise


def _nothing() -> None:
    """The arm that is not there."""


def _arms(script: Script, node: Node) -> list[tuple[Node | None, list[Node]]]:
    """(condition, statements) of `if` and each `elif`; the condition of `else` is None."""
    arms: list[tuple[Node | None, list[Node]]] = []
    conditions = [child for child in node.children_by_field_name("condition") if child.is_named]
    ends = [child for child in node.named_children if child.type in ("elif_clause", "else_clause")]
    inside = [child for child in node.named_children if child not in ends and child not in conditions]
    arms.append((conditions[-1] if conditions else None, inside))
    for end in ends:
        named = [child for child in end.named_children if child.type != "comment"]
        if end.type == "else_clause":
            arms.append((None, named))
        elif named:
            arms.append((named[0], named[1:]))
    return arms


def _patterns(item: Node) -> list[Node]:
    return item.children_by_field_name("value")


def _case_body(item: Node) -> list[Node]:
    patterns = _patterns(item)
    return [child for child in item.named_children if child not in patterns]


def _condition(script: Script, node: Node, undecided: Undecided) -> str:
    text = " ".join(script.text(node).split())
    if f"(line {script.line(node)})" in str(undecided):
        return str(undecided)
    return f"depends on `{text}` (line {script.line(node)}): {undecided}"
