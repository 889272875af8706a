"""What expressions may refer to, declared without loading the compiler.

Owns the cache of compiled expressions. Parser, checker and compiler are loaded with the first one:
most clusters have no expression at all, and their start is a tenth faster without.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from moorage.cel.errors import CompileError

if TYPE_CHECKING:
    from moorage.cel.program import Program

_MOST_PROGRAMS = 1024


class Function(NamedTuple):
    """A function beside CEL's own and those of Kubernetes."""

    signature: str
    """`target.name(arguments) -> result`; single capital letters are type parameters."""
    implementation: Callable[..., Any]


class Environment:
    """The variables, objects and functions of expressions, and the results they may have."""

    def __init__(
        self,
        variables: Mapping[str, str],
        *,
        objects: Mapping[str, Mapping[str, str]] | None = None,
        functions: Sequence[Function] = (),
        results: Sequence[str] = ("bool", "any"),
    ) -> None:
        """Types are written as CEL writes them; `objects` gives the fields of named types."""
        self.variables = dict(variables)
        self.objects = {name: dict(fields) for name, fields in (objects or {}).items()}
        self.functions = tuple(functions)
        self.results = tuple(results)
        self._program = lru_cache(maxsize=_MOST_PROGRAMS)(self._compiled)

    def compile(self, expression: str) -> "Program":
        """Compile an expression, or raise `CompileError` with cel-go's complaint."""
        found = self._program(expression)
        if isinstance(found, CompileError):
            raise CompileError(str(found), found.issues)
        return found

    def _compiled(self, expression: str) -> "Program | CompileError":
        """The program, or why there is none: a failure is kept as well."""
        from moorage.cel.program import check_expression

        try:
            return check_expression(expression, self).program()
        except CompileError as error:
            return error.with_traceback(None)
