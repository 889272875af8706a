"""Builders of the API objects that scenarios make."""

from e2e.client import Json

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def node(
    name: str,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    zone: str | None = None,
    labels: dict[str, str] | None = None,
    resources: dict[str, str] | None = None,
    **spec: object,
) -> Json:
    """A ready node; `spec` takes taints, unschedulable and so on."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "100Gi"}
    amounts |= resources or {}
    zones = {ZONE: zone} if zone else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name} | zones | (labels or {})},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(
    name: str,
    cpu: str | None = None,
    memory: str | None = None,
    labels: dict[str, str] | None = None,
    resources: dict[str, str] | None = None,
    ports: list[int] | None = None,
    pod_level: dict[str, str] | None = None,
    **spec: object,
) -> Json:
    """A pod of one container; `spec` takes any other field of a pod's spec."""
    requests = {"cpu": cpu, "memory": memory} | (resources or {})
    requests = {key: amount for key, amount in requests.items() if amount is not None}
    extended = {key: amount for key, amount in (resources or {}).items() if "/" in key}
    container: Json = {"name": "main", "image": "pause"}
    container["resources"] = {"requests": requests, "limits": extended}
    container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports or []]
    if pod_level is not None:
        spec["resources"] = {"requests": pod_level}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def priority_class(name: str, value: int, **fields: object) -> Json:
    """A priority class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def pod_group(name: str, count: int, topology: str | None = None) -> Json:
    """A gang of so many pods, all of them in one domain if a topology key is given."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": count}}}
    if topology is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def disruption_budget(name: str, labels: dict[str, str], min_available: int) -> Json:
    """A PodDisruptionBudget; no controller fills in its status, so the scenario must."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": labels}},
    }


def toleration(key: str, **fields: object) -> Json:
    """A toleration of every value of a taint's key."""
    return {"key": key, "operator": "Exists", **fields}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Json:
    """A taint."""
    return {"key": key, "effect": effect, "value": value}


def spread(labels: dict[str, str], key: str = ZONE, skew: int = 1, **fields: object) -> Json:
    """A topology spread constraint that must hold unless `fields` says otherwise."""
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
        **fields,
    }


def pod_term(labels: dict[str, str], key: str = HOSTNAME) -> Json:
    """A term of pod affinity or anti-affinity."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}


def must_attract(labels: dict[str, str], key: str = HOSTNAME) -> Json:
    """A required pod affinity."""
    return {"podAffinity": {_REQUIRED: [pod_term(labels, key)]}}


def must_repel(labels: dict[str, str], key: str = HOSTNAME) -> Json:
    """A required pod anti-affinity."""
    return {"podAntiAffinity": {_REQUIRED: [pod_term(labels, key)]}}


def must_be_on(key: str, operator: str, *values: str) -> Json:
    """A required node affinity of one expression."""
    expression: Json = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {_REQUIRED: terms}}


def should_be_on(key: str, value: str, weight: int = 100) -> Json:
    """A preferred node affinity of one value."""
    expression = {"key": key, "operator": "In", "values": [value]}
    term = {"weight": weight, "preference": {"matchExpressions": [expression]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
