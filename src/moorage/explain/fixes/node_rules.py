"""Which nodes a pod wants or is kept from: selectors, node affinity, `nodeName`, taints, cordons.

A requirement that fails is dropped, or widened by the value that gains most. Terms of an affinity
are alternatives, so it is enough to relax one of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.view import NodeView
from moorage.explain.fixes.changes import (
    END,
    LABEL_NODE,
    TOLERATE_TAINT,
    UNCORDON,
    Change,
    Operation,
    add,
    append,
    failing_together,
    named,
    patched,
    relaxed,
    remove,
    replace,
)
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.report import Edit
from moorage.explain.survey import Survey
from moorage.model.meta import Json
from moorage.model.node import Node
from moorage.model.node_selector import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeTerm,
    compile_term,
)
from moorage.model.pod import Pod, RequiredNodes
from moorage.model.taints import UNSCHEDULABLE_TAINT, Taint, TolerationIndex

NODE_AFFINITY = "NodeAffinity"
NODE_NAME = "NodeName"
_REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_RESERVED = "kubernetes.io"
"""Labels of this domain say what a node is; giving it another value does not make it that."""
_BUILT_FOR = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})
"""What an image is built for is not given up lightly."""
_BEYOND = ("Gt", "Lt")
"""Operators whose values must be beyond a bound."""
_MOST_PATTERNS = 8
_MOST_TERMS = 4


class NodeRequirement(msgspec.Struct, frozen=True):
    """One thing that a pod demands of a node, and where it stands."""

    steps: tuple[str | int, ...]
    text: str
    key: str
    fails: Bools
    expression: NodeSelectorRequirement | None = None
    """None: an entry of `nodeSelector`."""


def relax_node_affinity(
    sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools
) -> Iterator[Change]:
    """What to drop or widen, so that some of the rows are admitted."""
    nodes = survey.nodes
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
            text = "drop the required node affinity"
            yield relaxed(text, 2.0, NODE_AFFINITY, remove(*_REQUIRED))


def label_node(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Give a node the labels that `nodeSelector` asks for, if they are nobody else's business."""
    entries = _selector_entries(pod, survey.nodes)
    failing = [entry for entry in entries if (entry.fails & rows).any()]
    if any(_RESERVED in entry.key.partition("/")[0] for entry in failing):
        return
    places = np.flatnonzero(rows & _any_fails(failing, len(rows)))
    nodes = sorted((survey.nodes.node(int(row)) for row in places), key=lambda node: node.name)
    fewest = min(nodes, key=lambda node: len(_lacking(pod, node)), default=None)
    if fewest is None:
        return
    wanted = _lacking(pod, fewest)
    labels = fewest.metadata.labels
    patch = tuple(add(value, "metadata", "labels", key) for key, value in wanted.items())
    if not labels:
        patch = (add(dict(wanted), "metadata", "labels"),)
    pairs = " and ".join(f"{key}={value}" for key, value in wanted.items())
    yield Change(
        LABEL_NODE,
        f"label the node {fewest.name} with {pairs}",
        0.9 + 0.3 * len(wanted),
        (NODE_AFFINITY,),
        nodes=(patched(fewest, patch),),
        node_edits=(Edit("Node", fewest.name, patch),),
    )


def _lacking(pod: Pod, node: Node) -> dict[str, str]:
    """The labels that a node would need to be selected."""
    wanted = pod.spec.node_selector
    return {key: value for key, value in wanted.items() if node.labels.get(key) != value}


def drop_node_name(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Let the scheduler choose."""
    if pod.spec.node_name:
        text = f"drop nodeName ({pod.spec.node_name})"
        yield relaxed(text, 1.0, NODE_NAME, remove("spec", "nodeName"))


def _selector_entries(pod: Pod, nodes: NodeView) -> list[NodeRequirement]:
    found = []
    for key, value in pod.spec.node_selector.items():
        fails = ~nodes.required_by(RequiredNodes(labels=((key, value),)))
        text = f"the nodeSelector entry {key}={value}"
        found.append(NodeRequirement(("spec", "nodeSelector", key), text, key, fails))
    return found


def _terms(pod: Pod) -> Sequence[NodeSelectorTerm]:
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    required = node_affinity.required if node_affinity is not None else None
    return required.node_selector_terms if required is not None else ()


def _expressions(
    number: int, term: NodeSelectorTerm, nodes: NodeView
) -> list[NodeRequirement] | None:
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
            text = f"the node affinity requirement {_requirement_text(expression)}"
            fails = ~nodes.matching_term(compiled)
            found.append(NodeRequirement(steps, text, expression.key, fails, expression))
    return found


def _requirement_text(expression: NodeSelectorRequirement) -> str:
    """A requirement as people say it: `zone In [a b]`."""
    values = " ".join(value or '""' for value in expression.values)
    values = f" [{values}]" if values else ""
    return f"{expression.key} {expression.operator}{values}"


def _any_fails(requirements: Sequence[NodeRequirement], size: int) -> Bools:
    failing = np.zeros(size, np.bool_)
    for requirement in requirements:
        failing |= requirement.fails
    return failing


def _drop_or_widen(
    nodes: NodeView,
    requirements: Sequence[NodeRequirement],
    term: NodeSelectorTerm | None,
    rows: Bools,
) -> Iterator[Change]:
    """Changes for the sets of requirements that fail together, the smallest sets first."""
    fails = [requirement.fails for requirement in requirements]
    for places, there in failing_together(fails, rows, _MOST_PATTERNS):
        failing = [requirements[place] for place in places]
        if len(failing) == 1:
            yield from _widened(nodes, failing[0], there)
        yield _dropped(failing, term)


def _dropped(failing: Sequence[NodeRequirement], term: NodeSelectorTerm | None) -> Change:
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
    return relaxed(" and ".join(texts), size, NODE_AFFINITY, *operations)


def _widened(nodes: NodeView, requirement: NodeRequirement, rows: Bools) -> Iterator[Change]:
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
        operation = add(value, *requirement.steps)
    elif expression.operator == "In":
        text = f"allow {requirement.key}={value}, too, in {requirement.text}"
        operation = add(value, *requirement.steps, "values", END)
    elif expression.operator == "NotIn" and len(expression.values) > 1:
        text = f"allow {requirement.key}={value} in {requirement.text}"
        operation = remove(*requirement.steps, "values", expression.values.index(str(value)))
    elif expression.operator in _BEYOND:
        bound = _bound(expression.operator, map(column.vocabulary.values.__getitem__, counts))
        if bound is None:
            return
        text = f"change the bound of {requirement.text} to {bound}"
        operation = replace(str(bound), *requirement.steps, "values", 0)
    else:
        return
    size = 1.8 if requirement.key in _BUILT_FOR else 0.8
    yield relaxed(text, size, NODE_AFFINITY, operation)


def _bound(operator: str, values: Iterable[str | None]) -> int | None:
    """The bound nearest to the one there is that lets one of the values pass."""
    numbers = []
    for value in values:
        with suppress(ValueError):  # such a value is beyond no bound
            numbers.append(int(value or ""))
    if not numbers:
        return None
    return max(numbers) - 1 if operator == "Gt" else min(numbers) + 1


TAINTS = "TaintToleration"
CORDON = "NodeUnschedulable"
_MOST_SETS = 8
_NODE_TROUBLE = "node.kubernetes.io/"
"""Taints that say that something is wrong with a node: tolerating them asks for trouble."""


def tolerate_taints(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """For each set of taints that closes rows to the pod, the tolerations that open them."""
    column = survey.nodes.taints
    cordoned = survey.by_plugin.get(CORDON, np.zeros(len(rows), np.bool_))
    sets: dict[tuple[Taint, ...], int] = {}
    for cordon in (False, True):
        here = rows & (cordoned == cordon)
        codes, sizes = np.unique(column.codes[here], return_counts=True)
        for code, size in zip(codes, sizes, strict=True):
            closing = _closing(sandbox, pod, column.vocabulary.values[int(code)])
            if cordon and UNSCHEDULABLE_TAINT not in closing:
                closing = (*closing, UNSCHEDULABLE_TAINT)
            if closing:
                sets[closing] = sets.get(closing, 0) + int(size)
    for closing in sorted(sets, key=lambda taints: (len(taints), -sets[taints]))[:_MOST_SETS]:
        yield _tolerating(pod, closing)


def uncordon(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Open the first node that nothing but its cordon closes."""
    cordoned = survey.by_plugin.get(CORDON)
    if cordoned is None:
        return
    nodes = (survey.nodes.node(int(row)) for row in np.flatnonzero(rows & cordoned))
    for node in sorted(nodes, key=lambda node: node.name):
        if all(_is_cordon(taint) for taint in _closing(sandbox, pod, node.spec.taints)):
            yield _opened(node)
            return


def _closing(sandbox: Sandbox, pod: Pod, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taints that the pod would have to tolerate."""
    gates = sandbox.profile.queue_sort.handle.gates
    comparisons = gates.enabled("TaintTolerationComparisonOperators")
    tolerations = TolerationIndex(pod.spec.tolerations, comparisons=comparisons)
    return tuple(taint for taint in taints if taint.keeps_out and not tolerations.tolerates(taint))


def _is_cordon(taint: Taint) -> bool:
    return (taint.key, taint.effect) == (UNSCHEDULABLE_TAINT.key, UNSCHEDULABLE_TAINT.effect)


def _tolerating(pod: Pod, taints: tuple[Taint, ...]) -> Change:
    operations: list[Operation] = []
    present: tuple[object, ...] = pod.spec.tolerations
    for taint in taints:
        toleration = _toleration(taint)
        operations.append(append(toleration, present, "spec", "tolerations"))
        present = (*present, toleration)
    plugins = [TAINTS if not _is_cordon(taint) else CORDON for taint in taints]
    trouble = sum(taint.key.startswith(_NODE_TROUBLE) for taint in taints)
    return Change(
        TOLERATE_TAINT,
        f"tolerate the {named('taint', [taint.text for taint in taints])}",
        0.5 + 0.5 * len(taints) + trouble,
        tuple(dict.fromkeys(plugins)),
        tuple(operations),
    )


def _toleration(taint: Taint) -> Json:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


def _opened(node: Node) -> Change:
    operations: list[Operation] = [add(False, "spec", "unschedulable")]
    for i, taint in reversed(list(enumerate(node.spec.taints))):
        if _is_cordon(taint):
            operations.append(remove("spec", "taints", i))
    patch = tuple(operations)
    return Change(
        UNCORDON,
        f"uncordon the node {node.name}",
        1.2,
        (CORDON,),
        nodes=(patched(node, patch),),
        node_edits=(Edit("Node", node.name, patch),),
    )
