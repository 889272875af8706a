"""What the predicates and priorities of a policy are called, and which plugins do their work today.

Owns the tables: names, default choices, order, plugins with their extension points, and what to
say about names without a counterpart. Must not know a policy's structure.
"""

from collections.abc import Mapping

from moorage.config.types import ExtensionPoint

PREDICATE_ORDER = (
    "CheckNodeUnschedulable",
    "GeneralPredicates",
    "HostName",
    "PodFitsHostPorts",
    "MatchNodeSelector",
    "PodFitsResources",
    "NoDiskConflict",
    "PodToleratesNodeTaints",
    "CheckNodeLabelPresence",
    "CheckServiceAffinity",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxCSIVolumeCountPred",
    "MaxAzureDiskVolumeCount",
    "MaxCinderVolumeCount",
    "CheckVolumeBinding",
    "NoVolumeZoneConflict",
    "EvenPodsSpread",
    "MatchInterPodAffinity",
)
"""Every predicate, in the order in which they are asked."""

LABEL_PRESENCE = "CheckNodeLabelPresence"
SERVICE_AFFINITY = "CheckServiceAffinity"

PREDICATE_PLUGINS: Mapping[str, tuple[str, ...]] = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "GeneralPredicates": ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"),
    "HostName": ("NodeName",),
    "PodFitsHostPorts": ("NodePorts",),
    "MatchNodeSelector": ("NodeAffinity",),
    "PodFitsResources": ("NodeResourcesFit",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
}

PREDICATE_ALIASES = {"PodFitsPorts": "PodFitsHostPorts"}
MANDATORY_PREDICATES = frozenset(("PodToleratesNodeTaints", "CheckNodeUnschedulable"))
DEFAULT_PREDICATES = (
    "NoVolumeZoneConflict",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxAzureDiskVolumeCount",
    "MaxCSIVolumeCountPred",
    "MatchInterPodAffinity",
    "NoDiskConflict",
    "GeneralPredicates",
    "PodToleratesNodeTaints",
    "CheckVolumeBinding",
    "CheckNodeUnschedulable",
    "EvenPodsSpread",
)
MIGRATED_VOLUME_LIMITS = frozenset(
    ("MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxAzureDiskVolumeCount", "MaxCinderVolumeCount")
)
"""Predicates that counted the volumes of one cloud; all of them are CSI volumes by now."""

LEAST_REQUESTED = "LeastRequestedPriority"
MOST_REQUESTED = "MostRequestedPriority"
REQUESTED_TO_CAPACITY = "RequestedToCapacityRatio"
SELECTOR_SPREAD = "SelectorSpreadPriority"
EVEN_PODS_SPREAD = "EvenPodsSpreadPriority"
INTER_POD_AFFINITY = "InterPodAffinityPriority"
NODE_PREFER_AVOID_PODS = "NodePreferAvoidPodsPriority"
EQUAL = "EqualPriority"

PRIORITY_PLUGINS: Mapping[str, str] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    EVEN_PODS_SPREAD: "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    INTER_POD_AFFINITY: "InterPodAffinity",
    LEAST_REQUESTED: "NodeResourcesFit",
    MOST_REQUESTED: "NodeResourcesFit",
    "NodeAffinityPriority": "NodeAffinity",
    REQUESTED_TO_CAPACITY: "NodeResourcesFit",
    SELECTOR_SPREAD: "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}

PRIORITY_ALIASES = {"ServiceSpreadingPriority": SELECTOR_SPREAD}
DEFAULT_PRIORITIES: Mapping[str, int] = {
    SELECTOR_SPREAD: 1,
    INTER_POD_AFFINITY: 1,
    LEAST_REQUESTED: 1,
    "BalancedResourceAllocation": 1,
    NODE_PREFER_AVOID_PODS: 10000,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    EVEN_PODS_SPREAD: 2,
}

_CONSTRAINING = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER)

FILTER_POINTS: Mapping[str, tuple[ExtensionPoint, ...]] = {
    "InterPodAffinity": _CONSTRAINING,
    "NodeAffinity": _CONSTRAINING,
    "NodeName": (ExtensionPoint.FILTER,),
    "NodePorts": _CONSTRAINING,
    "NodeResourcesFit": _CONSTRAINING,
    "NodeUnschedulable": (ExtensionPoint.FILTER,),
    "NodeVolumeLimits": _CONSTRAINING,
    "PodTopologySpread": _CONSTRAINING,
    "TaintToleration": (ExtensionPoint.FILTER,),
    "VolumeBinding": (*_CONSTRAINING, ExtensionPoint.RESERVE, ExtensionPoint.PRE_BIND),
    "VolumeRestrictions": _CONSTRAINING,
    "VolumeZone": _CONSTRAINING,
}
"""Where a plugin must run to do the work of a predicate: more points than in v1.21, because some
filters now rely on a PreFilter of their own."""

SCORE_POINTS: Mapping[str, tuple[ExtensionPoint, ...]] = {
    "ImageLocality": (ExtensionPoint.SCORE,),
}
"""Where a plugin must run to do the work of a priority, if it has no PreScore."""

PRE_SCORE_AND_SCORE = (ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)

BEFORE_POLICY_PLUGINS: Mapping[str, tuple[ExtensionPoint, ...]] = {
    "SchedulingGates": (ExtensionPoint.PRE_ENQUEUE,),
    "PrioritySort": (ExtensionPoint.QUEUE_SORT,),
}
"""Plugins that every profile has, although a policy could not name them, and that come first."""

LATER_PLUGINS: Mapping[str, tuple[ExtensionPoint, ...]] = {
    "DynamicResources": (
        ExtensionPoint.PRE_ENQUEUE,
        ExtensionPoint.PRE_FILTER,
        ExtensionPoint.FILTER,
        ExtensionPoint.POST_FILTER,
        ExtensionPoint.SCORE,
        ExtensionPoint.RESERVE,
        ExtensionPoint.PRE_BIND,
    ),
    "DefaultPreemption": (ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.POST_FILTER),
    "DefaultBinder": (ExtensionPoint.BIND,),
    "NodeDeclaredFeatures": _CONSTRAINING,
    "GangScheduling": (ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.PERMIT),
    "TopologyPlacementGenerator": (ExtensionPoint.PLACEMENT_GENERATE,),
    "PodGroupPodsCount": (ExtensionPoint.PLACEMENT_SCORE,),
}
"""Plugins that come last: preemption and binding, and what serves fields of pods that are younger
than policies. Without them such pods would be placed against their own specification."""

DEFAULT_PROVIDER = "DefaultProvider"
CLUSTER_AUTOSCALER_PROVIDER = "ClusterAutoscalerProvider"

PROVIDER_FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
"""The filters of both algorithm providers, in their order."""

PROVIDER_PRIORITIES: Mapping[str, int] = {
    "BalancedResourceAllocation": 1,
    "ImageLocalityPriority": 1,
    INTER_POD_AFFINITY: 1,
    LEAST_REQUESTED: 1,
    "NodeAffinityPriority": 1,
    NODE_PREFER_AVOID_PODS: 10000,
    SELECTOR_SPREAD: 2,
    "TaintTolerationPriority": 1,
}
"""The scores of DefaultProvider, in its order and under the names that a policy has for them."""

AVOID_PODS_GONE = (
    "the plugin NodePreferAvoidPods and the node annotation "
    "scheduler.alpha.kubernetes.io/preferAvoidPods are no more; "
    "taint such nodes with effect PreferNoSchedule instead"
)
LABEL_PREFERENCE_GONE = (
    "the plugin NodeLabel is no more; give NodeAffinity an addedAffinity with "
    "preferredDuringSchedulingIgnoredDuringExecution, whose score counts together with that of the "
    "pods' own preferences"
)
LABEL_PRESENCE_GONE = (
    "the plugin NodeLabel is no more, and NodeAffinity's addedAffinity can take its place only "
    "where pods' own node selectors are enforced as well; add the predicate MatchNodeSelector"
)
SERVICE_AFFINITY_GONE = (
    "the plugin ServiceAffinity is no more; give the pods a podAffinity with the label as its "
    "topologyKey"
)
SERVICE_ANTI_AFFINITY_GONE = (
    "the plugin ServiceAffinity is no more; give the pods topologySpreadConstraints with the label "
    "as topologyKey, or PodTopologySpread such defaultConstraints"
)
CHECK_ALL_GONE = (
    "since v1.23 filtering a node ends with the first plugin that refuses it; decisions are the "
    "same, only fewer reasons are shown (moorage schedule --explain shows all of them)"
)
VOLUME_LIMITS_MOVED = (
    "these volumes are CSI volumes by now and NodeVolumeLimits counts them; KUBE_MAX_PD_VOLS has "
    "no effect"
)
WITHOUT_LABELS = "without labels it accepted every node; nothing is lost"
ARGUMENT_IGNORED = (
    "its argument was ignored, since the name is that of a predefined predicate; to have it "
    "enforced give the predicate another name"
)
ONE_STRATEGY = (
    "NodeResourcesFit has one scoring strategy, and {winner} (weight {weight}) goes first; "
    "a second profile may have the other one"
)
