"""Which nodes a pod insists on: `nodeSelector`, required node affinity, `nodeName`.

A requirement that fails is dropped, or widened by the value that gains most. Terms of an affinity
are alternatives, so it is enough to relax one of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.view import NodeView
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import LABEL_NODE, RELAX, Change
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.patches import END, Operation, add, patched, remove, replace
from moorage.explain.report import Edit
from moorage.model.node import Node
from moorage.model.node_selector import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeTerm,
    compile_term,
)
from moorage.model.pod import Pod, RequiredNodes

AFFINITY = "NodeAffinity"
NAME = "NodeName"
_REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_RESERVED = "kubernetes.io"
"""Labels of this domain say what a node is; giving it another value does not make it that."""
_BUILT_FOR = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})
"""What an image is built for is not given up lightly."""
_BEYOND = ("Gt", "Lt")
"""Operators whose values must be beyond a bound."""
_MOST_PATTERNS = 8
_MOST_TERMS = 4


class Requirement(msgspec.Struct, frozen=True):
    """One thing that a pod demands of a node, and where it stands."""

    steps: tuple[str | int, ...]
    text: str
    key: str
    fails: Bools
    expression: NodeSelectorRequirement | None = None
    """None: an entry of `nodeSelector`."""


def relax_node_affinity(
    bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools
) -> Iterator[Change]:
    """What to drop or widen, so that some of the rows are admitted."""
    del bench
    nodes = obstacles.nodes
    selector = _selector_entries(pod, nodes)
    terms = _terms(pod)
    if not terms:
        yield from _drop_or_widen(nodes, selector, None, rows)
    for number, term in enumerate(terms[:_MOST_TERMS]):
        expressions = _expressions(number, term, nodes)
        if expressions is not None:
            yield from _drop_or_widen(nodes, [*selector, *expressions], term, rows)
    if terms:
        admitted = rows & ~_any_fails(selector, len(rows))
        if admitted.any():
            yield Change(
                RELAX, "drop the required node affinity", 2.0, (AFFINITY,), (remove(*_REQUIRED),)
            )


def label_node(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Give a node the labels that `nodeSelector` asks for, if they are nobody else's business."""
    del bench
    entries = _selector_entries(pod, obstacles.nodes)
    failing = [entry for entry in entries if (entry.fails & rows).any()]
    if any(_RESERVED in entry.key.partition("/")[0] for entry in failing):
        return
    places = np.flatnonzero(rows & _any_fails(failing, len(rows)))
    nodes = sorted((obstacles.nodes.node(int(row)) for row in places), key=lambda node: node.name)
    fewest = min(nodes, key=lambda node: len(_lacking(pod, node)), default=None)
    if fewest is None:
        return
    wanted = _lacking(pod, fewest)
    labels = fewest.metadata.labels
    patch = tuple(add(value, "metadata", "labels", key) for key, value in wanted.items())
    if not labels:
        patch = (add(dict(wanted), "metadata", "labels"),)
    named = " and ".join(f"{key}={value}" for key, value in wanted.items())
    yield Change(
        LABEL_NODE,
        f"label the node {fewest.name} with {named}",
        0.9 + 0.3 * len(wanted),
        (AFFINITY,),
        nodes=(patched(fewest, patch),),
        node_edits=(Edit("Node", fewest.name, patch),),
    )


def _lacking(pod: Pod, node: Node) -> dict[str, str]:
    """The labels that a node would need to be selected."""
    wanted = pod.spec.node_selector
    return {key: value for key, value in wanted.items() if node.labels.get(key) != value}


def drop_node_name(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Let the scheduler choose."""
    del bench, obstacles
    if pod.spec.node_name and rows.any():
        text = f"drop nodeName ({pod.spec.node_name})"
        yield Change(RELAX, text, 1.0, (NAME,), (remove("spec", "nodeName"),))


def _selector_entries(pod: Pod, nodes: NodeView) -> list[Requirement]:
    found = []
    for key, value in pod.spec.node_selector.items():
        fails = ~nodes.required_by(RequiredNodes(labels=((key, value),)))
        text = f"the nodeSelector entry {key}={value}"
        found.append(Requirement(("spec", "nodeSelector", key), text, key, fails))
    return found


def _terms(pod: Pod) -> Sequence[NodeSelectorTerm]:
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    required = node_affinity.required if node_affinity is not None else None
    return required.node_selector_terms if required is not None else ()


def _expressions(number: int, term: NodeSelectorTerm, nodes: NodeView) -> list[Requirement] | None:
    """The requirements of a term; None if it cannot be read."""
    found = []
    for field, expressions in (
        ("matchExpressions", term.match_expressions),
        ("matchFields", term.match_fields),
    ):
        for place, expression in enumerate(expressions):
            alone = NodeSelectorTerm(
                match_expressions=(expression,) if field == "matchExpressions" else (),
                match_fields=(expression,) if field == "matchFields" else (),
            )
            compiled: NodeTerm = compile_term(alone)
            if compiled.error:
                return None
            steps = (*_REQUIRED, "nodeSelectorTerms", number, field, place)
            text = f"the node affinity requirement {written(expression)}"
            fails = ~nodes.matching_term(compiled)
            found.append(Requirement(steps, text, expression.key, fails, expression))
    return found


def written(expression: NodeSelectorRequirement) -> str:
    """A requirement as people say it: `zone In [a b]`."""
    values = " ".join(value or '""' for value in expression.values)
    values = f" [{values}]" if values else ""
    return f"{expression.key} {expression.operator}{values}"


def _any_fails(requirements: Sequence[Requirement], size: int) -> Bools:
    failing = np.zeros(size, np.bool_)
    for requirement in requirements:
        failing |= requirement.fails
    return failing


def _drop_or_widen(
    nodes: NodeView,
    requirements: Sequence[Requirement],
    term: NodeSelectorTerm | None,
    rows: Bools,
) -> Iterator[Change]:
    """Changes for the sets of requirements that fail together, the smallest sets first."""
    pattern: Ints = np.zeros(len(rows), np.int64)
    for bit, requirement in enumerate(requirements[:60]):
        pattern |= requirement.fails.astype(np.int64) << bit
    patterns, sizes = np.unique(pattern[rows & (pattern != 0)], return_counts=True)
    together = np.array([int(bits).bit_count() for bits in patterns], np.int64)
    order = np.lexsort((-sizes, together))
    for place in order[:_MOST_PATTERNS]:
        bits = int(patterns[place])
        failing = [r for bit, r in enumerate(requirements) if bits >> bit & 1]
        if len(failing) == 1:
            yield from _widened(nodes, failing[0], rows & (pattern == bits))
        yield _dropped(failing, term)


def _dropped(failing: Sequence[Requirement], term: NodeSelectorTerm | None) -> Change:
    in_term = [r for r in failing if r.expression is not None]
    operations: list[Operation] = []
    texts = [f"drop {r.text}" for r in failing if r.expression is None]
    whole = term is not None and len(in_term) == len(term.match_expressions) + len(
        term.match_fields
    )
    if whole and in_term:  # an empty term admits no node, so nothing of it can stay
        operations.append(remove(*_REQUIRED))
        texts.append("drop the required node affinity")
    else:
        texts += [f"drop {r.text}" for r in in_term]
        # From the last to the first: what goes must not move what is still to go.
        operations += [remove(*r.steps) for r in reversed(in_term)]
    operations += [remove(*r.steps) for r in failing if r.expression is None]
    size = 0.5 + 0.5 * len(failing) + (0.5 if whole else 0.0)
    size += sum(requirement.key in _BUILT_FOR for requirement in failing)
    return Change(RELAX, " and ".join(texts), size, (AFFINITY,), tuple(operations))


def _widened(nodes: NodeView, requirement: Requirement, rows: Bools) -> Iterator[Change]:
    """Allow the value that most of the rows have, as well or instead."""
    expression = requirement.expression
    if requirement.steps[-2] == "matchFields":
        return
    column = nodes.label(requirement.key)
    counts = Counter(column.codes[rows & column.present].tolist())
    if not counts:
        return
    value = column.vocabulary.values[counts.most_common(1)[0][0]]
    if expression is None:
        text = f"change {requirement.text} to {requirement.key}={value}"
        operations: tuple[Operation, ...] = (add(value, *requirement.steps),)
    elif expression.operator == "In":
        text = f"allow {requirement.key}={value}, too, in {requirement.text}"
        operations = (add(value, *requirement.steps, "values", END),)
    elif expression.operator == "NotIn" and len(expression.values) > 1:
        text = f"allow {requirement.key}={value} in {requirement.text}"
        operations = (remove(*requirement.steps, "values", expression.values.index(str(value))),)
    elif expression.operator in _BEYOND:
        bound = _bound(expression.operator, map(column.vocabulary.values.__getitem__, counts))
        if bound is None:
            return
        text = f"change the bound of {requirement.text} to {bound}"
        operations = (replace(str(bound), *requirement.steps, "values", 0),)
    else:
        return
    size = 1.8 if requirement.key in _BUILT_FOR else 0.8
    yield Change(RELAX, text, size, (AFFINITY,), operations)


def _bound(operator: str, values: Iterable[str | None]) -> int | None:
    """The bound nearest to the one there is that lets one of the values pass."""
    numbers = []
    for value in values:
        with suppress(ValueError):  # such a value is beyond no bound
            numbers.append(int(value or ""))
    if not numbers:
        return None
    return max(numbers) - 1 if operator == "Gt" else min(numbers) + 1
