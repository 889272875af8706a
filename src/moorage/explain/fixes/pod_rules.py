"""What a pod demands of the queue and of other pods: gates, pod affinity, topology spread."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import chain

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.explain.fixes.changes import (
    Change,
    Operation,
    add,
    containers_of,
    counted,
    named,
    relaxed,
    remove,
)
from moorage.explain.fixes.other_pods import moved
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.survey import Survey
from moorage.framework.attempt import AttemptResult
from moorage.framework.runner import Runner
from moorage.model.affinity import PodAffinity, PodAffinityTerm
from moorage.model.labels import LabelSelector
from moorage.model.node import HOSTNAME_LABEL
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.domains import Counted
from moorage.plugins.inter_pod_affinity.filtering import (
    AFFINITY,
    ANTI_AFFINITY,
    TermMatches,
    term_matches,
)

GATES = "SchedulingGates"
FEATURES = "NodeDeclaredFeatures"


def remove_gates(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Remove all of the pod's scheduling gates: as long as one is left it waits."""
    names = [gate.name for gate in pod.spec.scheduling_gates]
    if names:
        text = f"remove the {named('scheduling gate', names)}"
        yield relaxed(text, 0.5 * len(names), GATES, remove("spec", "schedulingGates"))


def need_no_features(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Do without what only some kubelets can do."""
    found: dict[str, tuple[Operation, ...]] = {}
    restarts: list[Operation] = []
    options: list[Operation] = []
    for steps, container in containers_of(pod):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            restarts.append(remove(*steps, "restartPolicyRules"))
        for at, mount in enumerate(container.volume_mounts):
            if mount.bind_mount_options:
                options.append(remove(*steps, "volumeMounts", at, "bindMountOptions"))
    if restarts:
        found["drop the restartPolicyRules that restart all containers"] = tuple(restarts)
    if options:
        found["drop the bindMountOptions"] = tuple(options)
    if pod.spec.host_network and pod.spec.host_users is False:
        users = (remove("spec", "hostUsers"),)
        found["drop hostUsers: false, as the pod uses the host's network"] = users
    for text, operations in found.items():
        yield relaxed(text, 1.5, FEATURES, *operations)
    if len(found) > 1:
        yield relaxed(" and ".join(found), 2.5, FEATURES, *chain.from_iterable(found.values()))


POD_AFFINITY = "InterPodAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_MOVED = 3
_MOST_DOMAINS = 3


def drop_pod_affinity(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Drop one of the pod's own required terms, or all of a kind."""
    affinity = pod.spec.affinity
    if affinity is None:
        return
    everything = []
    # Where terms of both kinds are in the way, only the first kind is named.
    reasons = [text for text, where in survey.reasons(POD_AFFINITY).items() if (where & rows).any()]
    for field, word, side, reason in (
        ("podAffinity", "pod affinity", affinity.pod_affinity, AFFINITY),
        ("podAntiAffinity", "pod anti-affinity", affinity.pod_anti_affinity, ANTI_AFFINITY),
    ):
        terms = _required_terms(side)
        if terms:
            everything.append(remove("spec", "affinity", field, _REQUIRED))
        if reason.text not in reasons:
            continue
        for i, term in enumerate(terms):
            text = f"drop the required {word} {_term_text(term)}"
            one = remove("spec", "affinity", field, _REQUIRED, i)
            yield relaxed(text, 1.2, POD_AFFINITY, one)
        if len(terms) > 1:
            text = f"drop all {counted(len(terms), f'required {word} term')}"
            yield relaxed(text, 1.0 + 0.7 * len(terms), POD_AFFINITY, everything[-1])
    if len(everything) > 1 and AFFINITY.text in reasons:
        text = "drop all required pod affinity and anti-affinity"
        yield relaxed(text, 3.5, POD_AFFINITY, *everything)


def move_opponents(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Move the pods that must not be in one domain with the pod, where they are fewest."""
    nodes = survey.nodes
    matches = term_matches(pod, nodes, nodes.terms_matching(pod))
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
            yield moved(
                gone, why if minds else "which the pod's anti-affinity is against", POD_AFFINITY
            )
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


def _required_terms(side: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    if side is None:
        return ()
    return side.required


def _term_text(term: PodAffinityTerm) -> str:
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


SPREAD = "PodTopologySpread"
_FIELD = "topologySpreadConstraints"
_HARD = "DoNotSchedule"
_SOFT = "ScheduleAnyway"
_MOST_SKEW = 1 << 20


def relax_spreading(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Relax each hard constraint: more skew, fewer domains, or merely a wish."""
    constraints = pod.spec.topology_spread_constraints
    if not constraints:
        yield _own_constraint(pod)
    for i, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable != _HARD:
            continue
        name = f"the topology spread over {constraint.topology_key}"
        skew = _least_skew(sandbox, pod, i, rows)
        if skew is not None:
            text = f"raise maxSkew of {name} from {constraint.max_skew} to {skew}"
            size = 0.6 + min(0.8, 0.1 * (skew - constraint.max_skew))
            yield relaxed(text, size, SPREAD, add(skew, "spec", _FIELD, i, "maxSkew"))
        if constraint.min_domains is not None:
            text = f"drop minDomains ({constraint.min_domains}) of {name}"
            yield relaxed(text, 0.9, SPREAD, remove("spec", _FIELD, i, "minDomains"))
        yield _softened(pod, i)


def _softened(pod: Pod, place: int) -> Change:
    """A wish instead of a demand, by the API's rules: one per key, and without minDomains."""
    constraints = pod.spec.topology_spread_constraints
    one = constraints[place]
    name = f"the topology spread over {one.topology_key}"
    if any(
        (other.topology_key, other.when_unsatisfiable) == (one.topology_key, _SOFT)
        for other in constraints
    ):
        text = f"drop {name} as a demand, as it is a wish as well"
        return relaxed(text, 1.2, SPREAD, remove("spec", _FIELD, place))
    soft = [add(_SOFT, "spec", _FIELD, place, "whenUnsatisfiable")]
    if one.min_domains is not None:
        soft.insert(0, remove("spec", _FIELD, place, "minDomains"))
    return relaxed(f"make {name} {_SOFT}", 1.2, SPREAD, *soft)


def _own_constraint(pod: Pod) -> Change:
    """The profile's defaults are for pods without constraints of their own."""
    own = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME_LABEL,
        "whenUnsatisfiable": _SOFT,
        "labelSelector": {"matchLabels": dict(pod.labels)},
    }
    text = f"give the pod a topology spread of its own, {_SOFT}, instead of the profile's default"
    return relaxed(text, 1.3, SPREAD, add([own], "spec", _FIELD))


def _least_skew(sandbox: Sandbox, pod: Pod, place: int, rows: Bools) -> int | None:
    """The smallest maxSkew with which the constraint lets some row pass."""

    def passes(skew: int) -> bool:
        return _passes(sandbox, _with_skew(pod, place, skew), rows)

    if not passes(_MOST_SKEW):
        return None
    low = pod.spec.topology_spread_constraints[place].max_skew
    step = 1  # most often little more is enough
    while low + step < _MOST_SKEW and not passes(low + step):
        step *= 2
    return bisect_left(range(low + step), True, low + step // 2 + 1, key=passes)


def _with_skew(pod: Pod, place: int, skew: int) -> Pod:
    constraints = list(pod.spec.topology_spread_constraints)
    constraints[place] = msgspec.structs.replace(constraints[place], max_skew=skew)
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=tuple(constraints))
    return msgspec.structs.replace(pod, spec=spec)


def _passes(sandbox: Sandbox, pod: Pod, rows: Bools) -> bool:
    """Does the plugin, asked alone, accept any of the rows?"""
    alone = copy(sandbox.profile)
    for point in ("pre_filter", "filter"):
        plugins = getattr(alone, point)
        setattr(alone, point, tuple(plugin for plugin in plugins if plugin.name == SPREAD))
    attempt = AttemptResult(alone, pod, sandbox.nodes, 0.0)
    try:
        Runner().filter(attempt)
    except PluginError:
        return False
    outcome = attempt.outcome
    return outcome is not None and bool(np.any(rows & ~outcome.rejected))
