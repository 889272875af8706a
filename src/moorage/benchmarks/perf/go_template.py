"""The part of Go's text/template that scheduler_perf's object templates use, and its functions.

Fields, variables, pipelines, `if` and `range`. What comes out is text; it need not know of what.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from moorage.errors import InputError

_ACTION = re.compile(r"(?:\s*\{\{-(?=\s)|\{\{)\s*(?P<inside>.*?)\s*(?:(?<=\s)-\}\}\s*|\}\})")
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|:=|[()|]|[^\s()|]+)')
_DECLARATION = re.compile(r"(\$\w+)\s*:=\s*(.*)")
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "nil": None}


class Scope(NamedTuple):
    """What names stand for at a place of the template."""

    dot: Any
    variables: dict[str, Any]


Value = Callable[[Scope], Any]
Part = Callable[[Scope], Iterable[str]]


class GoTemplate:
    """A template, read once and rendered for many values."""

    def __init__(self, text: str, where: str) -> None:
        """Read it; `where` is what complaints begin with."""
        self._where = where
        self._pieces = _pieces(text)
        self._body, end = self._block()
        if end is not None:
            raise self._complaint(end, "not understood")

    def render(self, values: Mapping[str, Any]) -> str:
        """The text for some values: `.Name` is the value called Name."""
        return "".join(_all(self._body, Scope(values, {})))

    def _block(self) -> tuple[list[Part], str | None]:
        """The parts up to an `else` or `end`, and which it was."""
        parts: list[Part] = []
        for text, action in self._pieces:
            if text:
                parts.append(partial(_literally, text))
            if action is None or action.startswith("/*"):
                continue
            if action in ("else", "end"):
                return parts, action
            word, _, rest = action.partition(" ")
            if word in ("if", "range"):
                parts.append(self._branch(word, rest, action))
            else:
                parts.append(self._output(action))
        return parts, None

    def _branch(self, word: str, asked: str, action: str) -> Part:
        variable, value = self._pipeline(asked, action)
        body, end = self._block()
        otherwise: list[Part] = []
        if end == "else":
            otherwise, end = self._block()
        if end != "end":
            raise self._complaint(action, "has no end")

        def chosen(scope: Scope) -> Iterator[str]:
            inner = Scope(scope.dot, dict(scope.variables))
            if variable and word == "if":
                inner.variables[variable] = value(scope)
            yield from _all(body if value(scope) else otherwise, inner)

        def repeated(scope: Scope) -> Iterator[str]:
            given = value(scope)
            items = list(range(given) if isinstance(given, int) else given or ())
            for item in items:
                variables = {**scope.variables, variable: item}
                yield from _all(body, Scope(item, variables))
            if not items:
                yield from _all(otherwise, scope)

        return chosen if word == "if" else repeated

    def _output(self, action: str) -> Part:
        variable, value = self._pipeline(action, action)

        def put_in(scope: Scope) -> tuple[str, ...]:
            found = value(scope)
            if variable:
                scope.variables[variable] = found
                return ()
            if found is None:
                raise self._complaint(action, "has no value")
            return (_written(found),)

        return put_in

    def _pipeline(self, asked: str, action: str) -> tuple[str, Value]:
        """The variable that is declared, if any, and what to calculate."""
        variable = ""
        if declares := _DECLARATION.fullmatch(asked):
            variable, asked = declares[1], declares[2]
        tokens = _TOKEN.findall(asked)
        try:
            value = _commands(tokens)
        except (LookupError, ValueError):
            raise self._complaint(action, "not understood") from None
        if tokens:
            raise self._complaint(action, "not understood")

        def checked(scope: Scope) -> Any:
            try:
                return value(scope)
            except ZeroDivisionError:
                raise self._complaint(action, "division by zero") from None
            except (LookupError, ValueError, TypeError, AttributeError):
                raise self._complaint(action, "not understood") from None

        return variable, checked

    def _complaint(self, action: str, what: str) -> InputError:
        return InputError(f"{self._where}: {{{{{action}}}}}: {what}")


def _pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """Text, each time with the action after it."""
    done = 0
    for action in _ACTION.finditer(text):
        yield text[done : action.start()], action["inside"]
        done = action.end()
    yield text[done:], None


def _literally(text: str, _: Scope) -> Iterable[str]:
    yield text


def _all(parts: Iterable[Part], scope: Scope) -> Iterator[str]:
    for part in parts:
        yield from part(scope)


def _commands(tokens: list[str]) -> Value:
    """A pipeline up to its end or a closing bracket; takes what it reads from the tokens."""
    value = _command(tokens, None)
    while tokens and tokens[0] == "|":
        del tokens[0]
        value = _command(tokens, value)
    return value


def _command(tokens: list[str], piped: Value | None) -> Value:
    function = _FUNCTIONS.get(tokens[0])
    if function is None:
        if piped is not None:
            raise ValueError(tokens[0])
        return _operand(tokens)
    del tokens[0]
    operands: list[Value] = []
    while tokens and tokens[0] not in ("|", ")"):
        operands.append(_operand(tokens))
    if piped is not None:
        operands.append(piped)
    return lambda scope: function(*[operand(scope) for operand in operands])


def _operand(tokens: list[str]) -> Value:
    token = tokens.pop(0)
    if token == "(":
        value = _commands(tokens)
        if tokens.pop(0) != ")":
            raise ValueError(token)
        return value
    if token.startswith("."):
        names = token[1:].split(".") if token != "." else []
        return lambda scope: _field(scope.dot, names)
    if token.startswith("$"):
        return lambda scope: scope.variables[token]
    if token in _CONSTANTS:
        return lambda scope: _CONSTANTS[token]
    constant = json.loads(token)
    return lambda scope: constant


def _field(value: Any, names: Iterable[str]) -> Any:
    for name in names:
        value = value.get(name)
    return value


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _number(value: Any) -> int | float:
    return float(value) if isinstance(value, str) else value


def _sum(*numbers: Any) -> float:
    return sum(_number(number) for number in numbers)


def _product(*numbers: Any) -> float:
    result: float = 1
    for number in numbers:
        result *= _number(number)
    return result


def _or(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "AddFloat": lambda *numbers: float(_sum(*numbers)),
    "AddInt": lambda *numbers: int(_sum(*numbers)),
    "DivideFloat": lambda one, other: _number(one) / _number(other),
    "DivideInt": lambda one, other: int(_number(one) / _number(other)),
    "Int": lambda value: int(value),
    "JSON": lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    "Mod": lambda one, other: int(_number(one)) % int(_number(other)),
    "MultiplyFloat": lambda *numbers: float(_product(*numbers)),
    "MultiplyInt": lambda *numbers: int(_product(*numbers)),
    "SubtractFloat": lambda one, other: float(_number(one) - _number(other)),
    "SubtractInt": lambda one, other: int(_number(one) - _number(other)),
    "eq": lambda one, other: one == other,
    "ge": lambda one, other: one >= other,
    "or": _or,
}
