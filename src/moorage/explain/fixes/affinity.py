"""Required pod affinity and anti-affinity: which term to drop, or whose to make way for."""

from collections.abc import Iterator, Sequence

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.view import NodeView
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import RELAX, Change, counted
from moorage.explain.fixes.moving import moved
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.patches import remove
from moorage.model.affinity import PodAffinity, PodAffinityTerm
from moorage.model.labels import LabelSelector
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import Counted
from moorage.plugins.inter_pod_affinity.filtering import (
    AFFINITY,
    ANTI_AFFINITY,
    TermMatches,
    term_matches,
)

PLUGIN = "InterPodAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_MOVED = 3
_MOST_DOMAINS = 3


def drop_pod_affinity(
    bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools
) -> Iterator[Change]:
    """Drop one of the pod's own required terms, or all of a kind."""
    del bench
    affinity = pod.spec.affinity
    if affinity is None:
        return
    everything = []
    # Where terms of both kinds are in the way, only the first kind is told.
    told = [text for text, where in obstacles.reasons(PLUGIN).items() if (where & rows).any()]
    for field, word, side, reason in (
        ("podAffinity", "pod affinity", affinity.pod_affinity, AFFINITY),
        ("podAntiAffinity", "pod anti-affinity", affinity.pod_anti_affinity, ANTI_AFFINITY),
    ):
        terms = _terms(side)
        if terms:
            everything.append(remove("spec", "affinity", field, _REQUIRED))
        if reason.text not in told:
            continue
        for i, term in enumerate(terms):
            text = f"drop the required {word} {written(term)}"
            operation = remove("spec", "affinity", field, _REQUIRED, i)
            yield Change(RELAX, text, 1.2, (PLUGIN,), (operation,))
        if len(terms) > 1:
            text = f"drop all {counted(len(terms), f'required {word} term')}"
            operation = remove("spec", "affinity", field, _REQUIRED)
            yield Change(RELAX, text, 1.0 + 0.7 * len(terms), (PLUGIN,), (operation,))
    if len(everything) > 1 and AFFINITY.text in told:
        text = "drop all required pod affinity and anti-affinity"
        yield Change(RELAX, text, 3.5, (PLUGIN,), tuple(everything))


def move_opponents(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Move the pods that must not be in one domain with the pod, where they are fewest."""
    del bench
    nodes = obstacles.nodes
    matches = term_matches(pod, nodes)
    # A pod that minds its own kind is one of several that are meant to be apart.
    repelling = () if _minds_its_kind(pod, matches, nodes) else matches.repelling
    against: tuple[Counted, ...] = (*matches.existing, *repelling)
    opponents: Ints = np.zeros(len(nodes), np.int64)
    for one in against:
        codes = nodes.label(one.key).codes
        opponents += np.where(codes > 0, one.sums(nodes).sums[codes], 0)
    places = np.flatnonzero(rows & (opponents > 0) & (opponents <= _MOST_MOVED))
    tried: set[tuple[str, ...]] = set()
    for row in places[np.argsort(opponents[places], kind="stable")]:
        gone = _in_domains(nodes, against, int(row))
        keys = tuple(other.key for other in gone)
        if gone and keys not in tried:
            tried.add(keys)
            minds = any(one.includes(other) for one in matches.existing for other in gone)
            why = "whose anti-affinity keeps the pod out"
            yield moved(gone, why if minds else "which the pod's anti-affinity is against", PLUGIN)
        if len(tried) >= _MOST_DOMAINS:
            return


def _minds_its_kind(pod: Pod, matches: TermMatches, nodes: NodeView) -> bool:
    labels = nodes.listers.namespace_labels(pod.namespace)
    return any(t.matches(pod.labels, pod.namespace, labels) for t in matches.anti_affinity)


def _in_domains(nodes: NodeView, against: Sequence[Counted], row: int) -> list[Pod]:
    """The pods that are counted in the row's domains."""
    found: dict[str, Pod] = {}
    for one in against:
        codes = nodes.label(one.key).codes
        if codes[row] == 0:
            continue
        for place in np.flatnonzero((codes == codes[row]) & (one.on_nodes(nodes) > 0)):
            found |= {
                other.uid: other for other in nodes.pods_on(int(place)) if one.includes(other)
            }
    return list(found.values())


def _terms(side: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    if side is None:
        return ()
    return side.required_during_scheduling_ignored_during_execution


def written(term: PodAffinityTerm) -> str:
    """A term as people say it: `with app=web per topology.kubernetes.io/zone`."""
    return f"({selector_text(term.label_selector)} per {term.topology_key})"


def selector_text(selector: LabelSelector | None) -> str:
    """A label selector as kubectl writes it."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        values = f" ({','.join(expression.values)})" if expression.values else ""
        parts.append(f"{expression.key} {expression.operator}{values}")
    return ",".join(parts) or "all pods"
