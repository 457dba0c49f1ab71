"""
The two kinds of text about sizes in an exported program, parsed without evaluating them.

torch evaluates both as Python: an expression, `Mul(Integer(2), Symbol('s0', integer=True))`, when it loads a program,
and a condition, `L['x'].size()[1] > L['y'].size()[1]`, when it runs one.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import sympy  # pyright: ignore[reportMissingTypeStubs] sympy ships none
from torch.utils._sympy import functions

MAX_TEXT = 1 << 14
"""Characters of one expression or condition."""
MAX_POWER = 64
"""The greatest exponent that is a number."""
SizeOf: TypeAlias = "Callable[[Sequence[str], int], Any]"
"""The size of an input on an axis, by the words that lead to it: `cache`, `k`, `0`."""

_FUNCTIONS = frozenset(
    {
        "Abs", "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "Float", "FloatPow", "FloatTrueDiv",
        "FloorDiv", "FloorToInt", "Ge", "GreaterThan", "Gt", "Identity", "IntTrueDiv", "Integer", "LShift", "Le",
        "LessThan", "Lt", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Not", "Or", "Pow", "PowByNatural",
        "PythonMod", "RShift", "Rational", "RoundDecimal", "RoundToInt", "StrictGreaterThan", "StrictLessThan",
        "Symbol", "ToFloat", "TruncToFloat", "TruncToInt", "Unequality", "Where", "ceiling", "floor",
    }
)  # fmt: skip
"""The functions of sympy and of torch that an expression may call."""
_POWERS = frozenset({"FloatPow", "LShift", "Pow", "PowByNatural"})
_SYMBOL = re.compile(r"[a-z]{1,5}\d+", re.ASCII)
_NUMBER = re.compile(r"-?[\d.]+(e[-+]?\d{1,3})?", re.ASCII)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def check_expression(text: str) -> None:
    """ValueError for a text that is not an expression of symbols and numbers."""
    _check(_parsed(text))


def _parsed(text: str) -> ast.expr:
    try:
        if len(text) <= MAX_TEXT:
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, MemoryError, RecursionError):
        pass
    raise ValueError(f"expected an expression of sizes, but got {text[:80]!r}")


def _check(node: ast.expr) -> None:
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return
        case ast.Name(id=name) if name in ("true", "false", "oo") or _SYMBOL.fullmatch(name):
            return
        case ast.UnaryOp(operand=operand):
            return _check(operand)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            if isinstance(op, ast.Pow):
                _check_power(right)
            _check(left)
            return _check(right)
        case ast.Compare(left=left, comparators=[right]):
            _check(left)
            return _check(right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _FUNCTIONS:
            return _check_call(name, args, keywords)
        case _:
            raise ValueError(f"expected an expression of sizes, but it holds {ast.unparse(node)[:80]!r}")


def _check_call(name: str, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> None:
    for keyword in keywords:
        _check(keyword.value)
    texts = {"Symbol": _SYMBOL, "Float": _NUMBER}
    if name in texts and args and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
        if not texts[name].fullmatch(args[0].value):
            raise ValueError(f"expected a symbol or a number, but got {args[0].value[:80]!r}")
        args = args[1:]
    if name in _POWERS and len(args) == 2:
        _check_power(args[1])
    for arg in args:
        _check(arg)


def _check_power(exponent: ast.expr) -> None:
    """An exponent is a small number, or an expression of symbols, which is not computed now."""
    value = exponent
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Integer":
        value = value.args[0] if len(value.args) == 1 else ast.Name("")
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    number = value.value if isinstance(value, ast.Constant) else None
    symbols = [one for one in ast.walk(exponent) if isinstance(one, ast.Name) and one.id not in _FUNCTIONS - {"Symbol"}]
    if not (isinstance(number, int | float) and number <= MAX_POWER) and not symbols:
        raise ValueError(f"expected an exponent of at most {MAX_POWER}, but got {ast.unparse(exponent)[:80]}")


def read_condition(text: str, size_of: SizeOf) -> Any:
    """A condition on sizes of inputs, as sympy has it; ValueError for a text that is none."""
    return _read(_parsed(text), size_of)


def _read(node: ast.expr, size_of: SizeOf) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return sympy.sympify(node.value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, size_of)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return sympy.Not(_read(operand, size_of))
        case ast.BoolOp(op=op, values=values):
            joined: Any = sympy.And if isinstance(op, ast.And) else sympy.Or
            return joined(*(_read(value, size_of) for value in values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            if isinstance(op, ast.Pow):
                _check_power(right)
            return _OPERATORS[type(op)](_read(left, size_of), _read(right, size_of))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _ORDERS:
            return _ORDERS[type(op)](_read(left, size_of), _read(right, size_of))
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=args, keywords=[]) if (
            ast.unparse(function) in _CALLS
        ):
            return _CALLS[ast.unparse(function)](*(_read(arg, size_of) for arg in args))
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(attr="size", value=source), args=[], keywords=[]),
            slice=ast.Constant(value=int() as axis),
        ):
            return cast("Any", sympy.sympify(size_of(_words(source), axis)))  # sympy has no types
        case _:
            raise ValueError(f"expected a condition on sizes, but it holds {ast.unparse(node)[:80]!r}")


def _words(source: ast.expr) -> list[str]:
    """`L['cache']['k'][0]` -> cache, k, 0."""
    match source:
        case ast.Name(id="L"):
            return []
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
            return [*_words(inner), str(key)]
        case ast.Attribute(value=inner, attr=name):
            return [*_words(inner), name]
        case _:
            raise ValueError(f"expected an input, but got {ast.unparse(source)[:80]!r}")


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: functions.IntTrueDiv,
    ast.FloorDiv: functions.FloorDiv,
    ast.Mod: functions.Mod,
    ast.Pow: lambda base, exponent: base**exponent,
}
_ORDERS: dict[type[ast.cmpop], Any] = {
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}
_CALLS: dict[str, Any] = {
    "min": sympy.Min,
    "max": sympy.Max,
    "float": functions.ToFloat,
    "math.trunc": functions.TruncToInt,
    "math.floor": functions.FloorToInt,
    "math.ceil": functions.CeilToInt,
}

__all__ = ["check_expression", "read_condition"]
