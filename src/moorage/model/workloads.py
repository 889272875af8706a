"""Objects around pods that a scheduler only looks up.

Services, owners, namespaces, disruption budgets and priority classes.
"""

from collections.abc import Iterable
from typing import Any

from moorage.model.labels import LabelSelector
from moorage.model.meta import ApiObject, Int32, Object, ObjectMeta


class ServiceSpec(Object, frozen=True):
    """Which pods a service stands for."""

    selector: dict[str, str] = {}


class Service(ApiObject, frozen=True, dict=True):
    """A service."""

    spec: ServiceSpec = ServiceSpec()


class PodTemplateSpec(Object, frozen=True):
    """The pods a controller makes; only their labels matter here."""

    metadata: ObjectMeta = ObjectMeta()


class ReplicationControllerSpec(Object, frozen=True):
    """Which pods a replication controller owns; its selector is a plain map."""

    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationController(ApiObject, frozen=True, dict=True):
    """A replication controller."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class OwnerSpec(Object, frozen=True):
    """Which pods a ReplicaSet or StatefulSet owns."""

    selector: LabelSelector | None = None


class ReplicaSet(ApiObject, frozen=True, dict=True):
    """A replica set."""

    spec: OwnerSpec = OwnerSpec()


class StatefulSet(ApiObject, frozen=True, dict=True):
    """A stateful set."""

    spec: OwnerSpec = OwnerSpec()


class Namespace(ApiObject, frozen=True, dict=True):
    """A namespace; only its labels matter here."""


class PodDisruptionBudgetSpec(Object, frozen=True):
    """Which pods a budget protects."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Object, frozen=True):
    """How many of them may go now, and which are going already."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] = {}


class PodDisruptionBudget(ApiObject, frozen=True, dict=True):
    """A budget of voluntary disruptions."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class PriorityClass(ApiObject, frozen=True, dict=True):
    """A named priority."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


def default_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """The class for pods that name none: of several global defaults the lowest, as upstream."""
    return min((c for c in classes if c.global_default), key=lambda c: c.value, default=None)
