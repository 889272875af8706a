"""Tainted and cordoned nodes: what to tolerate, or which node to open."""

from collections.abc import Iterator

import numpy as np

from moorage.cluster.columns import Bools
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import TOLERATE_TAINT, UNCORDON, Change
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.patches import Operation, add, append, patched, remove
from moorage.explain.report import Edit
from moorage.model.meta import Json
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.taints import UNSCHEDULABLE_TAINT, Taint, TolerationIndex

TAINTS = "TaintToleration"
CORDON = "NodeUnschedulable"
_MOST_SETS = 8
_NODE_TROUBLE = "node.kubernetes.io/"
"""Taints that say that something is wrong with a node: tolerating them asks for trouble."""


def tolerate_taints(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """For each set of taints that closes rows to the pod, the tolerations that open them."""
    column = obstacles.nodes.taints
    cordoned = obstacles.rejected.get(CORDON, np.zeros(len(rows), np.bool_))
    sets: dict[tuple[Taint, ...], int] = {}
    for cordon in (False, True):
        here = rows & (cordoned == cordon)
        codes, sizes = np.unique(column.codes[here], return_counts=True)
        for code, size in zip(codes, sizes, strict=True):
            closing = _closing(bench, pod, column.vocabulary.values[int(code)])
            if cordon and UNSCHEDULABLE_TAINT not in closing:
                closing = (*closing, UNSCHEDULABLE_TAINT)
            if closing:
                sets[closing] = sets.get(closing, 0) + int(size)
    for closing in sorted(sets, key=lambda taints: (len(taints), -sets[taints]))[:_MOST_SETS]:
        yield _tolerating(pod, closing)


def uncordon(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Open the first node that nothing but its cordon closes."""
    cordoned = obstacles.rejected.get(CORDON)
    if cordoned is None:
        return
    nodes = (obstacles.nodes.node(int(row)) for row in np.flatnonzero(rows & cordoned))
    for node in sorted(nodes, key=lambda node: node.name):
        if all(_is_cordon(taint) for taint in _closing(bench, pod, node.spec.taints)):
            yield _opened(node)
            return


def _closing(bench: Bench, pod: Pod, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taints that the pod would have to tolerate."""
    gates = bench.profile.queue_sort.handle.gates
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
    named = " and ".join(written(taint) for taint in taints)
    plugins = [TAINTS if not _is_cordon(taint) else CORDON for taint in taints]
    trouble = sum(taint.key.startswith(_NODE_TROUBLE) for taint in taints)
    return Change(
        TOLERATE_TAINT,
        f"tolerate the taint{'s' if len(taints) > 1 else ''} {named}",
        0.5 + 0.5 * len(taints) + trouble,
        tuple(dict.fromkeys(plugins)),
        tuple(operations),
    )


def written(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


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
