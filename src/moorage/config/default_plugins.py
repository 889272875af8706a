"""The plugins of a profile that asks for nothing else.

Owns their order and weights, which depend on the feature gates. Must not know what a user asked
for (`merging`) nor where a plugin runs (`expansion`).
"""

from moorage.config.feature_gates import FeatureGates
from moorage.config.types import PluginRef, Plugins, PluginSet


def default_plugins(gates: FeatureGates) -> Plugins:
    """All of them at MultiPoint, in order."""
    refs = [
        PluginRef("SchedulingGates"),
        PluginRef("PrioritySort"),
        PluginRef("NodeUnschedulable"),
        PluginRef("NodeName"),
        PluginRef("TaintToleration", 3),
        PluginRef("NodeAffinity", 2),
        PluginRef("NodePorts"),
        PluginRef("NodeResourcesFit", 1),
        PluginRef("VolumeRestrictions"),
        PluginRef("NodeVolumeLimits"),
        PluginRef("VolumeBinding"),
        PluginRef("VolumeZone"),
        PluginRef("PodTopologySpread", 2),
        PluginRef("InterPodAffinity", 2),
    ]
    if gates.enabled("DynamicResourceAllocation"):
        # Before DefaultPreemption: freeing an idle claim is better than evicting a running pod.
        refs.append(PluginRef("DynamicResources", 2))
    refs += [
        PluginRef("DefaultPreemption"),
        PluginRef("NodeResourcesBalancedAllocation", 1),
        PluginRef("ImageLocality", 1),
        PluginRef("DefaultBinder"),
    ]
    if gates.enabled("NodeDeclaredFeatures"):
        refs.append(PluginRef("NodeDeclaredFeatures"))
    if gates.enabled("GangScheduling"):
        refs.append(PluginRef("GangScheduling"))
    if gates.enabled("TopologyAwareWorkloadScheduling"):
        refs += [PluginRef("TopologyPlacementGenerator"), PluginRef("PodGroupPodsCount", 1)]
    return Plugins(multi_point=PluginSet(enabled=tuple(refs)))
