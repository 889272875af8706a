"""CEL, as far as device selectors use it: parsed, type-checked and compiled to closures."""

from moorage.plugins.dynamic_resources.cel.errors import CompileError, EvaluationError
from moorage.plugins.dynamic_resources.cel.reads import Attribute, Reads
from moorage.plugins.dynamic_resources.cel.selector import (
    CelFeatures,
    Selector,
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
    "Selector",
    "compile_selector",
    "device_value",
    "qualified",
]
