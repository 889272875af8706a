"""Compiled expressions: from the source text to a program, and its evaluation.

Owns the order of the steps (parse, check, compile), what each failure is called, and how a result
becomes a plain boolean. `Environment` loads this with the first expression.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from moorage.cel.checker import Checker
from moorage.cel.closures import Closure
from moorage.cel.compiler import Compiler
from moorage.cel.costs import COST, FRAME_START, Checkpoint, Frame, new_frame, no_checkpoint
from moorage.cel.environment import Environment
from moorage.cel.errors import (
    MAX_COST,
    CompileError,
    EvaluationAbortedError,
    EvaluationError,
    Issue,
    exceeded,
    report,
)
from moorage.cel.functions import function_table
from moorage.cel.literals import literal_issues
from moorage.cel.syntax import TOO_DEEP, Call, Index, Literal, Name, Node, Select, children, parse
from moorage.cel.types import Functions, parse_type
from moorage.cel.values import Optional, TypeValue, kind_of

Path = tuple[object, ...]
"""A variable's name, then the constant keys and fields that are looked up in it."""

_UNKNOWN = ("any", "dyn")

_FROM = {
    "bytes": "Bytes",
    "double": "Double",
    "list": "list",
    "map": "map",
    "null_type": "'null_type'",
    "kubernetes.NamedFormat": "'Format'",
}
"""Where complaints do not give the last part of a type's name in quotes."""


class Program:
    """A compiled expression."""

    __slots__ = ("_closure", "_frame_size", "_variables", "reads")

    def __init__(
        self,
        closure: Closure,
        frame_size: int,
        variables: tuple[str, ...],
        reads: frozenset[Path] | None,
    ) -> None:
        self._closure = closure
        self._frame_size = frame_size
        self._variables = variables
        """In the order of their places in the frame."""
        self.reads = reads
        """The parts of the variables that the result can depend on; None if that is not known."""

    def evaluate(
        self,
        variables: Mapping[str, Any],
        *,
        cost_limit: int = MAX_COST,
        checkpoint: Checkpoint = no_checkpoint,
    ) -> Any:
        """The value of the expression; raises `EvaluationError`.

        The checkpoint is called every millisecond or so; what it raises ends the evaluation.
        """
        frame = self._frame(variables, cost_limit, checkpoint)
        result = None
        try:
            result = self._closure(frame)
        except RecursionError:
            raise EvaluationError("evaluation nested too deeply") from None
        except EvaluationAbortedError as aborted:
            raise EvaluationError(str(aborted)) from None
        except EvaluationError:
            if frame[COST] <= cost_limit:
                raise
        if frame[COST] > cost_limit:
            raise EvaluationError(str(exceeded()))
        return result

    def evaluate_bool(
        self,
        variables: Mapping[str, Any],
        *,
        cost_limit: int = MAX_COST,
        checkpoint: Checkpoint = no_checkpoint,
    ) -> bool:
        """The same where only a boolean will do; one in an optional counts."""
        result = self.evaluate(variables, cost_limit=cost_limit, checkpoint=checkpoint)
        return result if type(result) is bool else _native_bool(result)

    def cost(self, variables: Mapping[str, Any]) -> int:
        """What an evaluation costs."""
        frame = self._frame(variables, MAX_COST, no_checkpoint)
        self._closure(frame)
        cost: int = frame[COST]
        return cost

    def _frame(self, variables: Mapping[str, Any], limit: int, checkpoint: Checkpoint) -> Frame:
        frame = new_frame(self._frame_size, limit, checkpoint)
        for slot, name in enumerate(self._variables, FRAME_START):
            frame[slot] = variables[name]
        return frame


class CheckedExpression:
    """An expression whose types are known: its tree, and programs of it and of its parts."""

    def __init__(
        self,
        source: str,
        tree: Node,
        checker: Checker,
        functions: Functions,
        variables: Sequence[str],
    ) -> None:
        self._source = source
        self.tree = tree
        self._checker = checker
        self._functions = functions
        self._variables = variables

    def type_of(self, part: Node) -> str:
        """The name of a part's type."""
        return self._checker.types[id(part)].name

    def implementation(self, call: Call) -> Callable[..., Any] | None:
        """What a call runs; None if that depends on the values."""
        overloads = self._checker.overloads.get(id(call), [])
        return overloads[0].implementation if len(overloads) == 1 else None

    def program(self, part: Node | None = None) -> Program:
        """The program of a part that uses no variables of loops, or of the whole.

        Raises `CompileError`.
        """
        tree = part or self.tree
        compiler = Compiler(self._functions, self._checker.overloads)
        slots = {name: compiler.slot() for name in self._variables}
        try:
            closure = compiler.compile(tree, slots)
        except EvaluationError as error:
            raise CompileError(f"program instantiation failed: {error}") from None
        except RecursionError:  # a chain of hundreds of operators
            raise _too_deep(self._source) from None
        return Program(closure, compiler.frame_size, tuple(slots), _paths_read(tree, slots))


def check_expression(expression: str, environment: Environment) -> CheckedExpression:
    """Parse an expression and work out its types; raises `CompileError`."""
    try:
        return _checked(expression, environment)
    except RecursionError:
        raise _too_deep(expression) from None


def _checked(expression: str, environment: Environment) -> CheckedExpression:
    functions = function_table(environment.functions)
    objects = {
        name: {field: parse_type(text) for field, text in declared.items()}
        for name, declared in environment.objects.items()
    }
    checker = Checker(functions, objects)
    try:
        tree = parse(expression)
    except Issue as issue:
        # The frames it was raised from would be kept alive with it.
        raise _failed(expression, [issue.with_traceback(None)]) from None
    variables = {name: parse_type(text) for name, text in environment.variables.items()}
    result = checker.check(tree, variables)
    issues = checker.issues or literal_issues(tree, checker.types)
    if issues:
        raise _failed(expression, issues)
    if result not in [parse_type(text) for text in environment.results]:
        names = ("the unknown type" if text in _UNKNOWN else text for text in environment.results)
        wanted = " or ".join(dict.fromkeys(names))
        raise CompileError(f"must evaluate to {wanted}, not {result.full_name}")
    return CheckedExpression(expression, tree, checker, functions, tuple(variables))


def _too_deep(expression: str) -> CompileError:
    return _failed(expression, [Issue(0, TOO_DEEP)])


def _failed(expression: str, issues: list[Issue]) -> CompileError:
    return CompileError(f"compilation failed: {report(expression, issues)}", tuple(issues))


def _paths_read(tree: Node, variables: Mapping[str, int]) -> frozenset[Path] | None:
    """What a parsed expression looks up in variables, from its text alone.

    On the safe side: a path ends where the next key is not a constant, and everything below it may
    be read. A loop's variable of the same name counts as the variable.
    """
    try:
        return frozenset(path for path in _paths(tree) if path[0] in variables)
    except RecursionError:  # deeper than can be looked through
        return None


def _paths(node: Node) -> Iterator[Path]:
    path = _path(node)
    if path is not None:
        yield path
        return
    for child in children(node):
        yield from _paths(child)


def _path(node: Node) -> Path | None:
    """The path that a look-up takes; None if it does not start at a name."""
    if isinstance(node, Name):
        return (node.name,)
    if isinstance(node, Select):
        key: object = node.field
    elif isinstance(node, Index) and isinstance(node.key, Literal):
        key = node.key.value
    else:
        return None
    before = _path(node.operand)
    return None if before is None else (*before, key)


def _native_bool(result: object) -> bool:
    value = result
    while isinstance(value, Optional) and value.present:
        value = value.value
    if isinstance(value, bool):
        return value
    raise EvaluationError(
        f"CEL result of type {kind_of(result)} could not be converted to bool: {_complaint(value)}"
    )


def _complaint(value: object) -> str:
    if isinstance(value, Optional):
        return "optional.none() dereference"
    if isinstance(value, TypeValue):
        return "type conversion not supported for 'type'"
    kind = kind_of(value)
    if kind in ("int", "uint"):
        return f"unsupported type conversion from '{kind}' to bool"
    if kind == "string":
        return "unsupported native conversion from string to 'bool'"
    named = _FROM.get(kind) or f"'{kind.rpartition('.')[2]}'"
    return f"type conversion error from {named} to 'bool'"
