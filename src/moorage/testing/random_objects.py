"""Random nodes, pods and events: small vocabularies, so that things meet, conflict and repeat.

Owns what "any cluster" means to `plugin_laws`. The generator is passed in, so a seed repeats a run.
"""

from random import Random

from moorage.cluster.state import ClusterState
from moorage.model.meta import Json
from moorage.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.model.pod import Pod
from moorage.testing.builders import make_node, make_pod

ZONES = ("north", "south", "east")
APPS = ("web", "db", "cache")
TAINTS = ("dedicated=db:NoSchedule", "spot:PreferNoSchedule", "wet=yes:NoExecute")
IMAGES = ("registry.example/web:v1", "registry.example/db:v2")
FEATURES = ("GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits")


def random_node(random: Random, name: str) -> Node:
    """A node with a zone (mostly), taints, images and features (sometimes)."""
    return make_node(
        name,
        zone=random.choice([*ZONES, None]),
        labels={"disk": random.choice(("ssd", "hdd"))} if random.random() < 0.7 else {},
        cpu=random.choice(("2", "4", "8")),
        memory=random.choice(("4Gi", "16Gi")),
        pods=random.choice((3, 110)),
        allocatable={"example.com/crane": "2"} if random.random() < 0.3 else {},
        taints=[taint for taint in TAINTS if random.random() < 0.2],
        unschedulable=random.random() < 0.1,
        images={image: 300_000_000 for image in IMAGES if random.random() < 0.4},
        status={"declaredFeatures": [f for f in FEATURES if random.random() < 0.5]},
    )


def random_pod(random: Random, name: str, node_name: str = "") -> Pod:
    """A pod with requests, tolerations, affinities, spreading and host ports, each sometimes."""
    app = random.choice(APPS)
    container: Json = {
        "name": "main",
        "image": random.choice(IMAGES),
        "resources": {"requests": _requests(random)},
    }
    if random.random() < 0.3:
        container["ports"] = [{"containerPort": 80, "hostPort": random.choice((80, 443))}]
    return make_pod(
        name,
        namespace=random.choice(("default", "batch")),
        labels={"app": app},
        node_name=node_name,
        priority=random.choice((0, 0, 10, 100)),
        spec={"containers": [container], **_constraints(random)},
        status={"startTime": f"2026-01-01T00:00:{random.randrange(60):02}Z"},
    )


def random_event(random: Random, state: ClusterState, serial: int) -> None:
    """Change the cluster: a node or pod comes, goes or changes. `serial` makes names unique."""
    names = list(state.nodes.row_of)
    placed = [pod for pod, _ in state.placed_pods()]
    match random.randrange(6):
        case 0:
            state.add_node(random_node(random, f"new-{serial}"))
        case 1 if len(names) > 1:
            state.remove_node(random.choice(names))
        case 2 if names:
            state.add_node(random_node(random, random.choice(names)))
        case 3 if placed:
            state.remove_pod(random.choice(placed))
        case _ if names:
            state.add_pod(random_pod(random, f"guest-{serial}", random.choice(names)))
        case _:
            state.add_node(random_node(random, f"new-{serial}"))


def _requests(random: Random) -> Json:
    requests = {}
    if random.random() < 0.8:
        requests["cpu"] = random.choice(("100m", "500m", "1500m", "3"))
    if random.random() < 0.8:
        requests["memory"] = random.choice(("128Mi", "1Gi", "5Gi"))
    if random.random() < 0.2:
        requests["example.com/crane"] = random.choice(("1", "2"))
    return requests


def _constraints(random: Random) -> Json:
    spec: Json = {}
    if random.random() < 0.4:
        spec["tolerations"] = [
            random.choice(
                (
                    {"operator": "Exists"},
                    {"key": "dedicated", "operator": "Equal", "value": "db"},
                    {"key": "spot", "operator": "Exists", "effect": "PreferNoSchedule"},
                )
            )
        ]
    if random.random() < 0.2:
        spec["nodeSelector"] = {"disk": random.choice(("ssd", "hdd"))}
    if random.random() < 0.5:
        spec["affinity"] = _affinity(random)
    if random.random() < 0.3:
        spec["topologySpreadConstraints"] = [_spread(random)]
    return spec


def _affinity(random: Random) -> Json:
    required, preferred = (
        f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred")
    )
    kind = random.choice(("nodeAffinity", "podAffinity", "podAntiAffinity"))
    if kind == "nodeAffinity":
        expression = {"key": ZONE_LABEL, "operator": "In", "values": random.sample(ZONES, 2)}
        term: Json = {"matchExpressions": [expression]}
        if random.random() < 0.5:
            return {kind: {required: {"nodeSelectorTerms": [term]}}}
        return {kind: {preferred: [{"weight": random.choice((1, 50)), "preference": term}]}}
    term = {
        "topologyKey": random.choice((ZONE_LABEL, HOSTNAME_LABEL)),
        "labelSelector": {"matchLabels": {"app": random.choice(APPS)}},
    }
    if random.random() < 0.5:
        return {kind: {required: [term]}}
    return {kind: {preferred: [{"weight": random.choice((1, 50)), "podAffinityTerm": term}]}}


def _spread(random: Random) -> Json:
    return {
        "maxSkew": random.choice((1, 2)),
        "topologyKey": random.choice((ZONE_LABEL, HOSTNAME_LABEL)),
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": random.choice(APPS)}},
    }
