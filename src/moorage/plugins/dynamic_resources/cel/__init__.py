"""CEL, as far as device selectors use it: parsed, type-checked and compiled to closures."""

from moorage.plugins.dynamic_resources.cel.errors import CompileError, EvaluationError
from moorage.plugins.dynamic_resources.cel.interface import (
    Attribute,
    CelFeatures,
    Reads,
    compile_selector,
    device_value,
    qualified,
)

__all__ = [
    "Attribute",
    "CelFeatures",
    "CompileError",
    "EvaluationError",
    "Reads",
    "compile_selector",
    "device_value",
    "qualified",
]
