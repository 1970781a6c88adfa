"""Arithmetic and conditions in search spaces: a small, safe language in Python's own notation.

Numbers, texts in quotes, names, `+ - * / // % **`, comparisons, `and or not`, brackets, and the
functions min, max, ceil, floor, log2. YAML's `true`, `false` and `null` are known too. Nothing else
of Python is reachable, and no result grows beyond 64 bits.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from autotune.records import Value

Scalar = Union[bool, int, float, str, None]

LONGEST_TEXT = 400
LARGEST_EXPONENT = 64
LARGEST_NUMBER = 2**63

_CONSTANTS: Mapping[str, Scalar] = {"true": True, "false": False, "null": None}

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_EQUALITY: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
}
_LANGUAGE = "numbers, 'texts', names, + - * / // % **, comparisons, and, or, not, " + ", ".join(_FUNCTIONS)


class ExpressionError(ValueError):
    """An expression that cannot be read or has no value. `part` is the offending piece of it."""

    def __init__(self, part: str, reason: str, allowed: str = _LANGUAGE) -> None:
        self.part = part
        self.reason = reason
        self.allowed = allowed
        super().__init__(f"`{part}`: {reason}; allowed: {allowed}")


def evaluate(text: str, names: Mapping[str, Value]) -> Scalar:
    """The value of `text` where each name stands for its value in `names`.

    Raises:
        ExpressionError: malformed, an unknown name, a type that does not fit, or no finite value.
    """
    return _value(_parse(text), names)


def names_in(text: str) -> set[str]:
    """The names that `text` needs, functions and constants left out.

    Raises:
        ExpressionError: malformed. A text that passes can only fail by its names and their values.
    """
    called = set()
    names = set()
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Call):
            called.add(id(node.func))
        elif isinstance(node, ast.Name) and id(node) not in called:
            names.add(node.id)
    return names - set(_CONSTANTS)


def unknown_name(name: str, known: Iterable[str]) -> ExpressionError:
    """The error for a name that nothing defines."""
    return ExpressionError(name, "unknown name", ", ".join(sorted(known)) or "no names here")


def _parse(text: str) -> ast.expr:
    if len(text) > LONGEST_TEXT:
        raise ExpressionError(f"{text[:40]}...", f"longer than {LONGEST_TEXT} characters")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExpressionError(text, f"not an expression ({reason})") from None
    for node in ast.walk(body):
        reason = _refusal(node)
        if reason:
            raise ExpressionError(_source(node, body), reason)
    return body


def _refusal(node: ast.AST) -> str:
    """Why a piece of syntax is not part of the language; empty if it is."""
    if isinstance(node, ast.Constant):
        is_plain = node.value is None or isinstance(node.value, (bool, int, float, str))
        return "" if is_plain else "only numbers and texts"
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
            return "unknown function"
        if node.keywords or not node.args or any(isinstance(part, ast.Starred) for part in node.args):
            return "a function takes plain values"
        return ""
    expressions = (ast.Name, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.expr_context, ast.boolop)
    operators = (*_BINARY, *_UNARY, *_ORDER, *_EQUALITY, ast.Not)
    return "" if isinstance(node, (*expressions, *operators)) else "not part of the language"


def _source(node: ast.AST, fallback: ast.expr) -> str:
    try:
        return ast.unparse(node) if isinstance(node, ast.expr) else ast.unparse(fallback)
    except (ValueError, RecursionError):
        return type(node).__name__


def _value(node: ast.expr, names: Mapping[str, Value]) -> Scalar:
    try:
        return _checked(node, _compute(node, names))
    except ExpressionError:
        raise
    except (ZeroDivisionError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise ExpressionError(_source(node, node), str(error)) from None


def _compute(node: ast.expr, names: Mapping[str, Value]) -> Any:
    match node:
        case ast.Constant():
            value: Any = node.value
        case ast.Name():
            value = _lookup(node.id, names)
        case ast.BoolOp():
            combine = all if isinstance(node.op, ast.And) else any
            value = combine(bool(_value(part, names)) for part in node.values)
        case ast.UnaryOp(op=ast.Not()):
            value = not _value(node.operand, names)
        case ast.UnaryOp():
            value = _UNARY[type(node.op)](_number(node.operand, names))
        case ast.BinOp():
            value = _arithmetic(node, names)
        case ast.Compare():
            value = _comparison(node, names)
        case ast.Call(func=ast.Name(id=("min" | "max") as function)):
            value = _FUNCTIONS[function]([_number(part, names) for part in node.args])
        case ast.Call(func=ast.Name(id=function)):
            value = _FUNCTIONS[function](*(_number(part, names) for part in node.args))
        case _:
            raise AssertionError(f"{type(node).__name__} passed the whitelist")
    return value


def _lookup(name: str, names: Mapping[str, Value]) -> Scalar:
    if name in names:
        value = names[name]
        if isinstance(value, (list, dict)):
            raise ExpressionError(name, "stands for a list or mapping, not for one value")
        return value
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    raise unknown_name(name, names)


def _number(node: ast.expr, names: Mapping[str, Value]) -> float:
    value = _value(node, names)
    if value is None or isinstance(value, str):
        shown = "null" if value is None else f"the text {value!r}"
        raise ExpressionError(_source(node, node), f"is {shown} where a number is needed")
    return value


def _arithmetic(node: ast.BinOp, names: Mapping[str, Value]) -> Any:
    left, right = _number(node.left, names), _number(node.right, names)
    if isinstance(node.op, ast.Pow) and abs(right) > LARGEST_EXPONENT:
        raise ExpressionError(_source(node, node), f"exponent beyond {LARGEST_EXPONENT}")
    return _BINARY[type(node.op)](left, right)


def _comparison(node: ast.Compare, names: Mapping[str, Value]) -> bool:
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        if type(op) in _EQUALITY:
            holds = _EQUALITY[type(op)](_value(left, names), _value(right, names))
        else:
            holds = _ORDER[type(op)](_number(left, names), _number(right, names))
        if not holds:
            return False
        left = right
    return True


def _checked(node: ast.expr, value: Any) -> Scalar:
    """The value, refused where it is no finite number of at most 64 bits."""
    if isinstance(value, complex):
        raise ExpressionError(_source(node, node), "has no real value")
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError(_source(node, node), "has no finite value")
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise ExpressionError(_source(node, node), "beyond 64 bits")
    assert value is None or isinstance(value, (bool, int, float, str))
    return value
