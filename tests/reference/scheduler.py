"""The default plugins run one after another on one node after another.

`NaiveScheduler` answers the questions that the product answers with columns: what PreFilter says,
which plugin refuses which node and why, what each scorer says, and who wins. Volumes and devices
are left out, so its pods must not use any.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from moorage.model.node_selector import NodeAffinitySpec
from moorage.model.pod import Pod, TopologySpreadConstraint
from reference import inter_pod_affinity, node_plugins, resources, topology_spread
from reference.answers import SKIP, UNRESOLVABLE, Refusal, Skip
from reference.cluster import NaiveCluster, NaiveNode, ports_of
from reference.image_locality import score_images

FILTERS = (
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
)
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


@dataclass(frozen=True)
class NaiveConfig:
    """The arguments of the plugins; the defaults are upstream's."""

    added_affinity: NodeAffinitySpec | None = None
    ignored_resources: tuple[str, ...] = ()
    ignored_groups: tuple[str, ...] = ()
    strategy: str = "LeastAllocated"
    fit_resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    shape: tuple[tuple[int, int], ...] = ()
    balanced: tuple[str, ...] = ("cpu", "memory")
    spread_defaults: tuple[TopologySpreadConstraint, ...] | None = None
    hard_weight: int = 1
    ignore_others: bool = False


@dataclass
class Prepared:
    """What the PreFilter round found out."""

    spread: topology_spread.HardState | Skip = SKIP
    company: inter_pod_affinity.RequiredState | Skip = SKIP
    skipped: set[str] = field(default_factory=set)
    node_names: set[str] | None = None
    naming: str = ""
    """The plugins that named these nodes."""
    rejection: Refusal | None = None

    def copy(self) -> "Prepared":
        """A copy to try things on."""
        return Prepared(
            self.spread if isinstance(self.spread, Skip) else self.spread.copy(),
            self.company if isinstance(self.company, Skip) else self.company.copy(),
            self.skipped,
            self.node_names,
            self.naming,
            self.rejection,
        )


@dataclass
class Scored:
    """One scorer's answer over the feasible node_plugins."""

    raw: dict[str, int]
    normalized: dict[str, int]


class NaiveScheduler:
    """The default profile over a naive cluster."""

    def __init__(self, cluster: NaiveCluster, config: NaiveConfig | None = None) -> None:
        self.cluster = cluster
        self.config = config or NaiveConfig()
        self.start = 0
        """Where the next search over the nodes starts."""

    # Filtering

    def prepare(self, pod: Pod) -> Prepared:
        """The PreFilter round."""
        prepared = Prepared()
        if not node_plugins.affinity_applies(pod, self.config.added_affinity):
            prepared.skipped.add("NodeAffinity")
        own = {pod.spec.node_name} if pod.spec.node_name else None
        named = node_plugins.named_nodes(pod)
        if named is not None and not named:
            prepared.rejection = Refusal(UNRESOLVABLE, ("pod affinity terms conflict",))
            return prepared
        prepared.node_names = own if named is None else named if own is None else own & named
        naming = {"NodeAffinity": named, "NodeName": own}
        prepared.naming = " ".join(plugin for plugin, names in naming.items() if names is not None)
        if prepared.node_names is not None and not prepared.node_names:
            text = f"node(s) didn't satisfy plugin(s) [{prepared.naming}] simultaneously"
            prepared.rejection = Refusal(UNRESOLVABLE, (text,))
            return prepared
        if not ports_of(pod):
            prepared.skipped.add("NodePorts")
        defaults = self.config.spread_defaults
        prepared.spread = topology_spread.count_hard(
            pod, self.cluster, topology_spread.SYSTEM_DEFAULTS if defaults is None else defaults
        )
        if prepared.spread is SKIP:
            prepared.skipped.add("PodTopologySpread")
        prepared.company = inter_pod_affinity.count_required(pod, self.cluster)
        if prepared.company is SKIP:
            prepared.skipped.add("InterPodAffinity")
        if not node_plugins.needed_features(pod):
            prepared.skipped.add("NodeDeclaredFeatures")
        return prepared

    def refusal_by(
        self, plugin: str, pod: Pod, info: NaiveNode, prepared: Prepared
    ) -> Refusal | None:
        """One plugin's answer about one node."""
        config, node = self.config, info.present()
        match plugin:
            case "NodeUnschedulable":
                return node_plugins.refuse_unschedulable(pod, node)
            case "NodeName":
                return node_plugins.refuse_other_name(pod, node)
            case "TaintToleration":
                return node_plugins.refuse_tainted(pod, node)
            case "NodeAffinity":
                return node_plugins.refuse_affinity(pod, node, config.added_affinity)
            case "NodePorts":
                return node_plugins.refuse_ports(pod, info)
            case "NodeResourcesFit":
                ignored, groups = config.ignored_resources, config.ignored_groups
                return resources.refuse_unfit(pod, info, ignored, groups)
            case "NodeDeclaredFeatures":
                return node_plugins.refuse_features(pod, node)
            case "PodTopologySpread":
                assert not isinstance(prepared.spread, Skip), "skipped plugins are not asked"
                return topology_spread.refuse_skewed(prepared.spread, pod, node)
            case _:
                assert not isinstance(prepared.company, Skip), "skipped plugins are not asked"
                return inter_pod_affinity.refuse_company(prepared.company, pod, node)

    def first_refusal(
        self, pod: Pod, info: NaiveNode, prepared: Prepared
    ) -> tuple[str, Refusal] | None:
        """The first plugin that refuses a node, and why."""
        for plugin in FILTERS:
            if plugin not in prepared.skipped:
                refusal = self.refusal_by(plugin, pod, info, prepared)
                if refusal is not None:
                    return plugin, refusal
        return None

    def with_nominated(
        self, pod: Pod, info: NaiveNode, prepared: Prepared
    ) -> tuple[str, Refusal] | None:
        """The same in two passes: with the pods nominated to the node, then without them."""
        nominated = self.cluster.ahead_of(pod, info.present().name)
        if nominated:
            crowded, changed = info.copy(), prepared.copy()
            for other in nominated:
                change(crowded, changed, pod, other, 1)
            refusal = self.first_refusal(pod, crowded, changed)
            if refusal is not None:
                return refusal
        return self.first_refusal(pod, info, prepared)

    def refusals(self, pod: Pod) -> dict[str, tuple[str, Refusal] | None]:
        """Every node that is looked at, with the first refusal."""
        prepared = self.prepare(pod)
        assert prepared.rejection is None, "a pod rejected by PreFilter is not filtered"
        return {
            name: self.with_nominated(pod, self.cluster.infos[name], prepared)
            for name in self.cluster.nodes
            if prepared.node_names is None or name in prepared.node_names
        }

    # Scoring

    def scores(self, pod: Pod, feasible: Sequence[str]) -> dict[str, Scored | Skip]:
        """Every scorer's answer about the feasible node_plugins."""
        config, cluster = self.config, self.cluster
        defaults, infos = config.spread_defaults, cluster.infos

        def fit(name: str) -> int:
            spec, strategy = config.fit_resources, config.strategy
            return resources.score_fit(pod, infos[name], spec, strategy, config.shape)

        def balance(name: str) -> int | Skip:
            return resources.score_balance(pod, infos[name], config.balanced)

        def affinity(name: str) -> int | Skip:
            return node_plugins.score_affinity(pod, infos[name].present(), config.added_affinity)

        def taints(name: str) -> int:
            return node_plugins.score_taints(pod, infos[name].present())

        spread = topology_spread.score_spread(pod, cluster, feasible, defaults)
        friends = inter_pod_affinity.score_company(
            pod,
            cluster,
            feasible,
            hard_weight=config.hard_weight,
            ignore_others=config.ignore_others,
        )
        return {
            "TaintToleration": _each(feasible, taints, node_plugins.normalize_taints),
            "NodeAffinity": _each(feasible, affinity, node_plugins.normalize_affinity),
            "NodeResourcesFit": _each(feasible, fit),
            "PodTopologySpread": SKIP if isinstance(spread, Skip) else Scored(*spread),
            "InterPodAffinity": SKIP if isinstance(friends, Skip) else Scored(*friends),
            "NodeResourcesBalancedAllocation": _each(feasible, balance),
            "ImageLocality": _each(feasible, lambda name: score_images(pod, name, cluster)),
        }

    def totals(self, pod: Pod, feasible: Sequence[str]) -> dict[str, int]:
        """The weighted totals."""
        totals = dict.fromkeys(feasible, 0)
        for plugin, scored in self.scores(pod, feasible).items():
            if not isinstance(scored, Skip):
                for name in feasible:
                    totals[name] += scored.normalized[name] * WEIGHTS[plugin]
        return totals

    def place(self, pod: Pod) -> str | None:
        """The node a pod goes to: the best total, of equals the fewest pods; None if none."""
        if self.prepare(pod).rejection is not None:
            return None
        refusals = self.refusals(pod)
        feasible = [name for name, refusal in refusals.items() if refusal is None]
        if pod.status.nominated_node_name in feasible:
            return pod.status.nominated_node_name
        looked_at = [name for name in self.cluster.order() if name in refusals]
        if looked_at:
            shift = self.start % len(looked_at)
            looked_at = looked_at[shift:] + looked_at[:shift]
        # The next search goes on where this one ended, also if it found nothing.
        self.start = (self.start + len(looked_at)) % len(self.cluster.nodes)
        if not feasible:
            return None
        totals = self.totals(pod, feasible)
        highest = max(totals.values())
        equals = [name for name in looked_at if totals.get(name) == highest]
        # `min` takes the first of several, which is the first looked at.
        return min(equals, key=lambda name: len(self.cluster.infos[name].pods))


def change(info: NaiveNode, prepared: Prepared, pod: Pod, other: Pod, sign: int) -> None:
    """Another pod comes to or goes from a node, and the prepared counts follow."""
    if sign > 0:
        info.add(other)
    else:
        info.remove(other)
    node = info.present()
    if not isinstance(prepared.spread, Skip):
        topology_spread.change_hard(prepared.spread, pod, other, node, sign)
    if not isinstance(prepared.company, Skip):
        inter_pod_affinity.change_required(prepared.company, pod, other, node, sign)


def _each(
    feasible: Sequence[str],
    score: Callable[[str], int | Skip],
    normalize: Callable[[dict[str, int]], dict[str, int]] = dict,
) -> Scored | Skip:
    raw: dict[str, int] = {}
    for name in feasible:
        points = score(name)
        if isinstance(points, Skip):
            return SKIP
        raw[name] = points
    return Scored(raw, normalize(raw))
