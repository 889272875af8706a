"""The registry of in-tree plugins, one line per plugin, and what several of them share."""

import msgspec

from moorage.framework.plugin import Handle
from moorage.framework.registry import Registry
from moorage.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.deferred_pod_scheduling import DeferredPodScheduling
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.dynamic_resources.extended_resources import DeviceBackedResources
from moorage.plugins.expressions import ExpressionFilter, ExpressionScore
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.image_locality import ImageLocality
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.plugins.node_affinity import NodeAffinity
from moorage.plugins.node_declared_features import NodeDeclaredFeatures
from moorage.plugins.node_name import NodeName
from moorage.plugins.node_ports import NodePorts
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.plugins.pod_group_pods_count import PodGroupPodsCount
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.plugins.taint_toleration import TaintToleration
from moorage.plugins.topology_placement import TopologyPlacementGenerator
from moorage.plugins.topology_spread import PodTopologySpread
from moorage.plugins.volume_binding import VolumeBinding
from moorage.plugins.volume_restrictions import VolumeRestrictions
from moorage.plugins.volume_zone import VolumeZone


def in_tree_registry() -> Registry:
    """All plugins that come with Moorage."""
    return Registry(
        (
            SchedulingGates,
            PrioritySort,
            NodeUnschedulable,
            NodeName,
            TaintToleration,
            NodeAffinity,
            NodePorts,
            DeferredPodScheduling,
            NodeResourcesFit,
            VolumeRestrictions,
            NodeVolumeLimits,
            VolumeBinding,
            VolumeZone,
            PodTopologySpread,
            InterPodAffinity,
            DynamicResources,
            DefaultPreemption,
            NodeResourcesBalancedAllocation,
            ImageLocality,
            DefaultBinder,
            NodeDeclaredFeatures,
            GangScheduling,
            TopologyPlacementGenerator,
            PodGroupPodsCount,
            ExpressionFilter,
            ExpressionScore,
        )
    )


def with_devices(handle: Handle) -> Handle:
    """The handle with what DynamicResources knows of devices, for plugins that count resources."""
    return msgspec.structs.replace(handle, devices=DeviceBackedResources(handle))
