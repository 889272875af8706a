"""Pod groups (`scheduling.k8s.io/v1beta1`): pods that are placed together.

Owns the group's policy as the API writes it; which pods belong to it is told by their
`spec.schedulingGroup`, and placing them together is the engine's business.
"""

from moorage.model.meta import ApiObject, Condition, Int32, Int64, Object
from moorage.model.pod import PodResourceClaim, PodResourceClaimStatus


class BasicSchedulingPolicy(Object, frozen=True):
    """Pods are placed one by one."""


class GangSchedulingPolicy(Object, frozen=True):
    """At least so many pods are placed, or none."""

    min_count: Int32 = 0


class PodGroupSchedulingPolicy(Object, frozen=True):
    """How the group is placed: exactly one of these is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Object, frozen=True):
    """All pods go to nodes with one value of this label."""

    key: str = ""


class PodGroupSchedulingConstraints(Object, frozen=True):
    """Where the group may be placed."""

    topology: tuple[TopologyConstraint, ...] = ()


class SingleDisruptionMode(Object, frozen=True):
    """Pods are evicted one by one."""


class AllDisruptionMode(Object, frozen=True):
    """All pods of the group are evicted together, or none is."""


class DisruptionMode(Object, frozen=True):
    """How the group may be disrupted: exactly one of these is set."""

    single: SingleDisruptionMode | None = None
    all: AllDisruptionMode | None = None


class WorkloadReference(Object, frozen=True):
    """The workload and its template that the group was made from."""

    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(Object, frozen=True):
    """What the group asks for."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    """Those that its pods share."""
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None


class PodGroupCondition(Condition, frozen=True):
    """A condition of the group's status."""

    observed_generation: Int64 | None = None
    last_transition_time: str | None = None


class PodGroupStatus(Object, frozen=True):
    """What is known of the group."""

    conditions: tuple[PodGroupCondition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(ApiObject, frozen=True, dict=True):
    """Pods that are placed together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def min_count(self) -> int | None:
        """How many pods a gang needs; None for a group that is no gang."""
        gang = self.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count

    @property
    def disrupted_together(self) -> bool:
        """Are all its pods evicted if one is?"""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def effective_priority(self) -> int:
        """How important the group is; without a priority it has that of pods without one."""
        return self.spec.priority or 0

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """The labels in which the nodes of all its pods must agree."""
        constraints = self.spec.scheduling_constraints
        return () if constraints is None else tuple(item.key for item in constraints.topology)
