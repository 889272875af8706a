"""An expression turned into operations on columns.

Owns which expressions can be: look-ups of labels and amounts, arithmetic, comparisons, booleans,
conditions, `in`, and functions of one text. Whatever does not refer to the node is evaluated once.
Everything else is evaluated node by node (`expression`), with the same answers: a property test
compares both.

Nothing here loops, so an expression costs no more than its length allows. Only what is evaluated
once may cost more, and has a limit.
"""

import operator
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from moorage.cel import MAX_COST, EvaluationError
from moorage.cel.errors import exceeded
from moorage.cel.program import CheckedExpression
from moorage.cel.syntax import Call, Index, Literal, MakeList, Name, Node, Select, children
from moorage.cluster.columns import Bools
from moorage.cluster.view import NodeView
from moorage.model.pod import Pod
from moorage.plugins.errors import NotInColumnsError
from moorage.plugins.expressions.column_values import ColumnValue, Failed, Failures, Texts, either
from moorage.plugins.expressions.numbers import calculate, negated
from moorage.plugins.expressions.variables import waiting_pod

_KINDS = ("int", "bool", "string")
_NOTHING: Mapping[str, Any] = {"int": 0, "bool": False, "string": ""}
"""In the place of values that failed."""
_LISTED = {"int": int, "string": str}
_ARITHMETIC = frozenset(("_+_", "_-_", "_*_", "_/_", "_%_"))
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "_==_": operator.eq,
    "_!=_": operator.ne,
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_OF_ONE_TEXT = frozenset(
    ("startsWith", "endsWith", "contains", "matches", "size", "int", "lowerAscii", "upperAscii")
)
_ONCE_LIMIT = MAX_COST // 10
"""What the parts that are evaluated once may cost together."""


class Inputs:
    """What one evaluation is about."""

    def __init__(self, pod: Pod, nodes: NodeView) -> None:
        self._pod = pod
        self.nodes = nodes
        self.failures = Failures()

    @cached_property
    def variables(self) -> Mapping[str, Any]:
        """For what does not refer to the node."""
        return {"pod": waiting_pod(self._pod), "node": None}


Part = Callable[[Inputs], ColumnValue]


class ColumnCompiler:
    """Compiles one expression; raises `NotInColumnsError` where that cannot be done."""

    def __init__(self, checked: CheckedExpression) -> None:
        self._checked = checked
        self._once = 0
        """How many parts are evaluated once."""

    def compile(self, node: Node) -> Part:
        """The operations of a part."""
        kind = self._checked.type_of(node)
        if kind not in _KINDS:
            raise NotInColumnsError(kind)
        if isinstance(node, Literal):
            constant = node.value
            return lambda inputs: ColumnValue(constant)
        if not _mentions_node(node):
            return self._evaluated_once(node, kind)
        match node:
            case Select(test=True) | Index() | Select():
                return _look_up(node)
            case Call():
                return self._call(node, kind)
        raise NotInColumnsError(type(node).__name__)

    def _evaluated_once(self, node: Node, kind: str) -> Part:
        program = self._checked.program(node)
        self._once += 1

        def evaluate(inputs: Inputs) -> ColumnValue:
            limit = _ONCE_LIMIT // self._once
            try:
                return ColumnValue(program.evaluate(inputs.variables, cost_limit=limit))
            except EvaluationError as error:
                if str(error) == str(exceeded()):
                    raise NotInColumnsError("it costs too much") from None
                return ColumnValue(_NOTHING[kind], inputs.failures.code(str(error)))

        return evaluate

    def _call(self, node: Call, kind: str) -> Part:
        function = node.function
        if function == "size" and _is_field(node.target or node.arguments[0], "pods"):
            return lambda inputs: ColumnValue(inputs.nodes.pod_count)
        if function in _OF_ONE_TEXT:
            return self._text_function(node, kind)
        if function == "orValue" and node.target is not None:
            return self._text_or_other(node.target, node.arguments[0])
        if function == "@in":
            return self._membership(node)
        if kind == "string":
            raise NotInColumnsError("texts made of others")
        return self._operator(node)

    def _operator(self, node: Call) -> Part:
        function = node.function
        parts = [self.compile(argument) for argument in node.arguments]
        match function:
            case "!_":
                return _negation(parts[0])
            case "-_":
                return lambda inputs: negated(parts[0](inputs), inputs.failures)
            case "_&&_":
                return _connective(parts[0], parts[1], decisive=False)
            case "_||_":
                return _connective(parts[0], parts[1], decisive=True)
            case "_?_:_":
                return _conditional(*parts)
        if function in _ARITHMETIC:
            return lambda inputs: calculate(
                function, parts[0](inputs), parts[1](inputs), inputs.failures
            )
        if function in _COMPARISONS:
            of_texts = self._checked.type_of(node.arguments[0]) == "string"
            if of_texts and function not in ("_==_", "_!=_"):
                raise NotInColumnsError("the order of texts")
            return _comparison(_COMPARISONS[function], parts[0], parts[1])
        raise NotInColumnsError(function)

    def _text_function(self, node: Call, kind: str) -> Part:
        """A function of the node's text; its other arguments are constants."""
        text, *others = (node.target, *node.arguments) if node.target else node.arguments
        implementation = self._checked.implementation(node)
        if implementation is None or self._checked.type_of(text) != "string":
            raise NotInColumnsError(node.function)
        constants = [_constant(other) for other in others]
        part = self.compile(text)

        def evaluate(inputs: Inputs) -> ColumnValue:
            answer = part(inputs)
            texts: Texts = answer.values
            values, failed = texts.apply(
                lambda text: implementation(text, *constants), kind, inputs.failures
            )
            return ColumnValue(values, either(answer.failed, failed))

        return evaluate

    def _text_or_other(self, target: Node, other: Node) -> Part:
        """`node.labels[?"key"].orValue("other")`, or `node.labels.?key`."""
        key, default = _key(target), _constant(other)
        if not isinstance(target, Select | Index) or not target.optional:
            raise NotInColumnsError("orValue")
        if not _is_field(target.operand, "labels") or not isinstance(default, str):
            raise NotInColumnsError("orValue")

        def evaluate(inputs: Inputs) -> ColumnValue:
            column = inputs.nodes.label(key)
            texts = [default if text is None else text for text in column.vocabulary.values]
            return ColumnValue(Texts(column.codes, texts))

        return evaluate

    def _membership(self, node: Call) -> Part:
        item, container = node.arguments
        if isinstance(item, Literal) and isinstance(container, Select):
            return _has(container, str(item.value))
        if not isinstance(container, MakeList) or container.optional:
            raise NotInColumnsError("in")
        items = [_constant(one) for one in container.items]
        kind = self._checked.type_of(item)
        if any(type(one) is not _LISTED.get(kind) for one in items):
            raise NotInColumnsError("in")
        part = self.compile(item)

        def evaluate(inputs: Inputs) -> ColumnValue:
            answer = part(inputs)
            found: Bools = np.zeros(len(inputs.nodes), np.bool_)
            for one in items:
                found |= _equal(answer.values, one)
            return ColumnValue(found, answer.failed if items else 0)

        return evaluate


def _mentions_node(node: Node) -> bool:
    if isinstance(node, Name):
        return node.name == "node"
    return any(_mentions_node(child) for child in children(node))


def _is_field(node: Node, field: str) -> bool:
    return (
        isinstance(node, Select)
        and node.field == field
        and not (node.optional or node.test)
        and node.operand == Name(node.operand.position, "node")
    )


def _constant(node: Node) -> Any:
    if isinstance(node, Literal):
        return node.value
    raise NotInColumnsError("a value that is worked out")


def _key(node: Node) -> str:
    """What is looked up in a map of the node."""
    if isinstance(node, Select):
        return node.field
    if isinstance(node, Index) and isinstance(key := _constant(node.key), str):
        return key
    raise NotInColumnsError("a key that is worked out")


def _look_up(node: Select | Index) -> Part:
    if _is_field(node, "name"):
        return lambda inputs: ColumnValue(
            Texts(np.arange(len(inputs.nodes), dtype=np.int32), [*inputs.nodes.names()])
        )
    if isinstance(node, Select) and node.test:
        if not _is_field(node.operand, "labels"):
            raise NotInColumnsError("has")
        return _has(node.operand, node.field)
    if node.optional:
        raise NotInColumnsError("optional")
    key = _key(node)
    if _is_field(node.operand, "labels"):
        return _label(key)
    if _is_field(node.operand, "allocatable"):
        return lambda inputs: ColumnValue(inputs.nodes.allocatable(key))
    if _is_field(node.operand, "requested"):
        return lambda inputs: ColumnValue(inputs.nodes.requested(key))
    raise NotInColumnsError("a field without a column")


def _label(key: str) -> Part:
    def evaluate(inputs: Inputs) -> ColumnValue:
        column = inputs.nodes.label(key)
        vocabulary = column.vocabulary
        texts = Texts(column.codes, vocabulary.values, vocabulary.find)
        if np.count_nonzero(column.codes) == len(column.codes):
            return ColumnValue(texts)
        code = inputs.failures.code(f"no such key: {key}")
        return ColumnValue(texts, np.where(column.present, 0, code))

    return evaluate


def _has(container: Node, key: str) -> Part:
    """`has(node.labels.key)`, and `"key" in` labels or amounts."""
    if _is_field(container, "labels"):
        return lambda inputs: ColumnValue(inputs.nodes.label(key).present)
    if _is_field(container, "allocatable"):
        return lambda inputs: ColumnValue(inputs.nodes.allocatable(key) != 0)
    if _is_field(container, "requested"):
        return lambda inputs: ColumnValue(inputs.nodes.requested(key) != 0)
    raise NotInColumnsError("in")


def _negation(part: Part) -> Part:
    def evaluate(inputs: Inputs) -> ColumnValue:
        answer = part(inputs)
        return ColumnValue(np.logical_not(answer.values), answer.failed)

    return evaluate


def _connective(left: Part, right: Part, *, decisive: bool) -> Part:
    """`&&` and `||`: where one side settles it, the other may fail."""

    def evaluate(inputs: Inputs) -> ColumnValue:
        first, second = left(inputs), right(inputs)
        if decisive:
            values = np.logical_or(first.values, second.values)
        else:
            values = np.logical_and(first.values, second.values)
        failed = either(first.failed, second.failed)
        if not (first.may_fail or second.may_fail):
            return ColumnValue(values)
        settled = _settles(first, decisive=decisive) | _settles(second, decisive=decisive)
        return ColumnValue(np.where(settled, decisive, values), np.where(settled, 0, failed))

    return evaluate


def _settles(answer: ColumnValue, *, decisive: bool) -> Any:
    return np.equal(answer.values, decisive) & np.equal(answer.failed, 0)


def _conditional(condition: Part, chosen: Part, other: Part) -> Part:
    def evaluate(inputs: Inputs) -> ColumnValue:
        test, first, second = condition(inputs), chosen(inputs), other(inputs)
        values = np.where(test.values, first.values, second.values)
        failed: Failed = 0
        if first.may_fail or second.may_fail:
            failed = np.where(test.values, first.failed, second.failed)
        return ColumnValue(values, either(test.failed, failed))

    return evaluate


def _comparison(compare: Callable[[Any, Any], Any], left: Part, right: Part) -> Part:
    def evaluate(inputs: Inputs) -> ColumnValue:
        first, second = left(inputs), right(inputs)
        failed = either(first.failed, second.failed)
        if isinstance(first.values, Texts) or isinstance(second.values, Texts):
            same = _equal(first.values, second.values)
            return ColumnValue(same if compare is operator.eq else np.logical_not(same), failed)
        return ColumnValue(compare(first.values, second.values), failed)

    return evaluate


def _equal(left: Any, right: Any) -> Any:
    if isinstance(left, Texts) and isinstance(right, Texts):
        numbers: dict[str | None, int] = {}
        codes = [
            np.array([numbers.setdefault(text, len(numbers)) for text in side.texts]).take(
                side.codes
            )
            for side in (left, right)
        ]
        return codes[0] == codes[1]
    if isinstance(left, Texts):
        return left.equal(right)
    return right.equal(left) if isinstance(right, Texts) else left == right
