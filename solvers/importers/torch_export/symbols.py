"""Sizes that a program leaves open: their hints, the numbers that are asked for, and formulas of both.

A program writes a size as a number or as a formula of symbols with a hint, the value it had when it was exported.
Formulas are Python expressions as sympy prints them: `4*s0` by PyTorch 2.5, since then
`Mul(Integer(4), Symbol('s0', positive=True, integer=True))`. They are parsed, never run.
"""

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from solvers.importers.checked import item, short
from solvers.importers.limits import MAX_ELEMENTS, MAX_EXPRESSION
from solvers.importers.workload import ALL
from solvers.model.errors import SourceError
from solvers.quantities import count, listed

LARGEST = 2**64
"""Of any number within a formula; more is a typing error or an attack."""


def _power(base: int, exponent: int) -> int:
    if not 0 <= exponent <= 64 or abs(base) > LARGEST:
        raise ValueError
    return int(base**exponent)


def _divided(a: int, b: int) -> int:
    if a % b:
        raise ValueError
    return a // b


FUNCTIONS: dict[str, Callable[..., int]] = {
    "Integer": int,
    "Add": lambda *terms: sum(terms),
    "Mul": lambda *factors: math.prod(factors),
    "Pow": _power,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: -(-a // b),
    "IntTrueDiv": _divided,
    "Max": max,
    "Min": min,
    "Identity": int,
    "CeilToInt": int,
    "FloorToInt": int,
    "TruncToInt": int,
    "ToFloat": int,
    "floor": int,
    "ceiling": int,
    "Abs": abs,
}
"""What formulas are made of (`torch/utils/_sympy/functions.py`), on whole numbers."""

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Div: _divided,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: _power,
}


class Sizes:
    """Evaluates sizes: with hints, or with the numbers that `dims` gives for symbols.

    `ranges` are the least and the largest value of a symbol, where the program has them. In `dims`, `ALL` stands for
    every symbol that has no number of its own there.
    """

    def __init__(self, dims: Mapping[str, int], ranges: Mapping[str, tuple[int | None, int | None]]) -> None:
        self.dims, self.ranges = dims, ranges
        self.symbols: dict[str, int | None] = {}
        """Every symbol that was met, with its value where that is known."""
        self._parsed: dict[str, ast.expr] = {}
        for name, value in dims.items():
            self._check(name, name, value)

    def _check(self, name: str, symbol: str, value: int) -> None:
        """Raise SourceError where a symbol cannot have the value that is given for `name`."""
        least, most = self.ranges.get(symbol, (None, None))
        if not 1 <= value <= MAX_ELEMENTS or (least or 0) > value or (most is not None and most < value):
            bounds = f"from {count(max(1, least or 1))} to {count(min(MAX_ELEMENTS, most or MAX_ELEMENTS))}"
            of_symbol = "" if name == symbol else f" for {symbol}"
            raise SourceError(f"--dim {name}={value} is out of range{of_symbol}; give a whole number {bounds}.")

    def _given(self, symbol: str) -> int | None:
        """Return the number that is asked for, None where none is."""
        if symbol not in self.dims and ALL in self.dims:
            self._check(ALL, symbol, self.dims[ALL])
            return self.dims[ALL]
        return self.dims.get(symbol)

    def size(self, raw: Any, place: str) -> int:
        """Return the value of a size or stride; SourceError where it is none, or open."""
        if isinstance(raw, dict) and "as_int" in raw:
            value = item(raw, "as_int", int, place)
        else:
            value = self._value(item(raw, "as_expr", dict, place), place)
        if not 0 <= value <= MAX_ELEMENTS:
            raise SourceError(f"{place} is {short(value)}; sizes from 0 to {count(MAX_ELEMENTS)} are imported.")
        return value

    def check_all_used(self) -> None:
        """Raise SourceError where a symbol was given that no size has."""
        unknown = [name for name in self.dims if name not in self.symbols and not (name == ALL and self.symbols)]
        if unknown:
            known = f"its open sizes are {listed(sorted(self.symbols))}" if self.symbols else "all its sizes are fixed"
            raise SourceError(f"--dim {unknown[0]}: the archive has no size of that name; {known}.")

    def _value(self, raw: dict[str, Any], place: str) -> int:
        text = item(raw, "expr_str", str, place)
        raw_hint = raw.get("hint")
        hint = None if raw_hint is None else item(raw_hint, "as_int", int, place)
        try:
            formula = self._parsed.get(text) or self._parse(text)
            names = _names(formula)
            for name in names:
                given = self._given(name)
                value = hint if given is None and _is_symbol(formula) else given
                if self.symbols.get(name) is None:
                    self.symbols[name] = value
            if hint is not None and all(self._given(name) is None for name in names):
                return hint
            return self._evaluated(formula)
        except _OpenError as error:
            raise SourceError(f"The archive leaves the size {error} open; give it as --dim {error}=N.") from None
        except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
            raise SourceError(f"{place} has a formula of sizes that is not known: {short(text)}.") from None

    def _parse(self, text: str) -> ast.expr:
        if len(text) > MAX_EXPRESSION:
            raise ValueError
        self._parsed[text] = ast.parse(text.strip(), mode="eval").body
        return self._parsed[text]

    def _evaluated(self, formula: ast.expr) -> int:
        if isinstance(formula, ast.Constant) and type(formula.value) is int:
            value = formula.value
        elif _is_symbol(formula):
            (name,) = _names(formula)
            given = self._given(name)
            known = self.symbols.get(name) if given is None else given
            if known is None:
                raise _OpenError(name)
            value = known
        elif isinstance(formula, ast.UnaryOp) and isinstance(formula.op, ast.USub):
            value = -self._evaluated(formula.operand)
        elif isinstance(formula, ast.BinOp) and type(formula.op) in OPERATORS:
            value = OPERATORS[type(formula.op)](self._evaluated(formula.left), self._evaluated(formula.right))
        elif isinstance(formula, ast.Call) and isinstance(formula.func, ast.Name) and formula.func.id in FUNCTIONS:
            value = FUNCTIONS[formula.func.id](*(self._evaluated(argument) for argument in formula.args))
        else:
            raise ValueError
        if abs(value) > LARGEST:
            raise ValueError
        return value


class _OpenError(Exception):
    """A symbol has no value."""


def _is_symbol(formula: ast.expr) -> bool:
    if isinstance(formula, ast.Name):
        return True
    return isinstance(formula, ast.Call) and isinstance(formula.func, ast.Name) and formula.func.id == "Symbol"


def _names(formula: ast.expr) -> list[str]:
    """Return the names of the symbols of a formula; ValueError where one has no name."""
    if isinstance(formula, ast.Name):
        return [formula.id]
    if isinstance(formula, ast.Call) and _is_symbol(formula):
        name = formula.args[0] if formula.args else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            raise ValueError
        return [name.value]
    children = formula.args if isinstance(formula, ast.Call) else ast.iter_child_nodes(formula)
    found = [name for child in children if isinstance(child, ast.expr) for name in _names(child)]
    return list(dict.fromkeys(found))
