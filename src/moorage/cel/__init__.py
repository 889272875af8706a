"""CEL, the expression language of Kubernetes: compiled once, evaluated as often as needed.

Say what expressions may refer to, compile one, evaluate it:

    environment = Environment({"node": "map(string, dyn)"})
    program = environment.compile('node.name.startsWith("gpu-")')
    program.evaluate_bool({"node": {"name": "gpu-7"}}, cost_limit=10_000)

- `Environment` declares variables, types of objects and additional functions. Types are written as
  CEL writes them: `int`, `list(string)`, `map(string, quantity)`.
- `Environment.compile` gives a `Program`, or raises `CompileError`. The text of the error is
  cel-go's, with line and column; `issues` has the positions as numbers.
- `Program.evaluate` and `Program.evaluate_bool` take the variables by name and raise
  `EvaluationError`. Costs are counted as Kubernetes counts them; `cost_limit` ends an evaluation.
- `Program.reads` tells which fields of the variables an expression can depend on.

All of Kubernetes' functions are there, except the authorizer. The package knows nothing of devices,
pods or nodes: whoever uses it declares them. Values that are not plain Python values (quantities,
versions) are in `moorage.cel.values`.
"""

from moorage.cel.environment import Environment, Function
from moorage.cel.errors import MAX_COST, CompileError, EvaluationError

__all__ = ["MAX_COST", "CompileError", "Environment", "EvaluationError", "Function"]
