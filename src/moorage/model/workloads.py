"""Objects around pods that a scheduler only looks up: services, owners, namespaces, budgets."""

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
