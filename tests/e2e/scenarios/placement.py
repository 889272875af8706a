"""Where pods go: each pod is placed before the next is made, so that one node is the best."""

from e2e.client import Json
from e2e.objects import (
    ZONE,
    must_attract,
    must_be_on,
    must_repel,
    should_be_on,
    spread,
    taint,
    toleration,
)
from e2e.trial import Trial

_WEB = {"app": "web"}


def by_resources(trial: Trial) -> Json:
    """Amounts of CPU, memory, an extended resource, the number of pods and a host port."""
    trial.add_node("small", cpu="2", memory="4Gi")
    trial.add_node("large", cpu="16", memory="64Gi")
    trial.add_node("devices", cpu="4", memory="8Gi", resources={"example.com/device": "2"})
    trial.add_node("one", cpu="1", memory="1Gi", pods="1")
    trial.start()
    trial.place("needs-cpu", cpu="8", memory="1Gi")
    trial.place("needs-memory", cpu="1", memory="30Gi")
    trial.place("needs-device", cpu="100m", resources={"example.com/device": "2"})
    trial.place("emptiest", cpu="100m", memory="64Mi")
    trial.place("port-a", ports=[8080], nodeSelector={"kubernetes.io/hostname": "large"})
    trial.add_pod("port-b", ports=[8080], nodeSelector={"kubernetes.io/hostname": "large"})
    trial.refused("port-b")
    trial.place("only", nodeSelector={"kubernetes.io/hostname": "one"})
    trial.add_pod("too-many", nodeSelector={"kubernetes.io/hostname": "one"})
    trial.refused("too-many")
    return trial.observe(
        *("needs-cpu", "needs-memory", "needs-device", "emptiest"),
        *("port-a", "port-b", "only", "too-many"),
    )


def by_node_labels(trial: Trial) -> Json:
    """Node selector, required and preferred node affinity."""
    trial.add_node("ssd-a", zone="a", labels={"disk": "ssd"})
    trial.add_node("ssd-b", zone="b", labels={"disk": "ssd", "size": "9"})
    trial.add_node("hdd", zone="a", labels={"disk": "hdd"})
    trial.start()
    trial.place("selected", cpu="1", nodeSelector={"disk": "hdd"})
    trial.place(
        "not-in", cpu="1", nodeSelector={ZONE: "a"}, affinity=must_be_on("disk", "NotIn", "hdd")
    )
    trial.place("greater", cpu="1", affinity=must_be_on("size", "Gt", "5"))
    trial.place("preferred", cpu="1", affinity=should_be_on("disk", "hdd"))
    trial.add_pod("nowhere", affinity=must_be_on("size", "Lt", "5"))
    trial.refused("nowhere")
    return trial.observe("selected", "not-in", "greater", "preferred", "nowhere")


def by_taints(trial: Trial) -> Json:
    """Every effect of a taint, and a node that is cordoned."""
    trial.add_node("dedicated", taints=[taint("team", value="blue")])
    trial.add_node("leaving", taints=[taint("maintenance", "NoExecute")])
    trial.add_node("avoided", taints=[taint("spot", "PreferNoSchedule")])
    trial.add_node("cordoned", unschedulable=True)
    trial.start()
    trial.place("plain", cpu="1")
    blue = {"key": "team", "operator": "Equal", "value": "blue", "effect": "NoSchedule"}
    trial.place("blue", cpu="1", tolerations=[blue])
    trial.place(
        "stays",
        nodeSelector={"kubernetes.io/hostname": "leaving"},
        tolerations=[toleration("maintenance")],
    )
    trial.add_pod(
        "red",
        nodeSelector={"kubernetes.io/hostname": "dedicated"},
        tolerations=[blue | {"value": "red"}],
    )
    trial.add_pod("on-cordoned", nodeSelector={"kubernetes.io/hostname": "cordoned"})
    trial.refused("red")
    trial.refused("on-cordoned")
    return trial.observe("plain", "blue", "stays", "red", "on-cordoned")


def by_spread(trial: Trial) -> Json:
    """Hard spreading over zones fills them evenly, then refuses what would tip the balance."""
    trial.add_node("a1", zone="a", cpu="8")
    trial.add_node("a2", zone="a", cpu="8")
    trial.add_node("b1", zone="b", cpu="2")
    trial.start()
    for number in range(4):
        trial.place(f"web-{number}", cpu="1", labels=_WEB, topologySpreadConstraints=[spread(_WEB)])
    trial.place("web-4", cpu="2", labels=_WEB, topologySpreadConstraints=[spread(_WEB)])
    trial.add_pod("web-5", cpu="2", labels=_WEB, topologySpreadConstraints=[spread(_WEB)])
    trial.refused("web-5")
    keyless = spread(_WEB, key="rack")
    trial.add_pod("keyless", cpu="1", labels=_WEB, topologySpreadConstraints=[keyless])
    trial.refused("keyless")
    per_node = trial.pods_per_node(labelSelector="app=web")
    return {
        "in zone a": per_node["a1"] + per_node["a2"],
        "in zone b": per_node["b1"],
        **trial.observe(*(f"web-{number}" for number in range(5)), where=False),
        **trial.observe("web-5", "keyless"),
    }


def by_pod_affinity(trial: Trial) -> Json:
    """Required affinity and anti-affinity, on both sides, and the first pod of a group."""
    for name in ("n1", "n2", "n3"):
        trial.add_node(name, zone="a" if name == "n1" else "b")
    trial.start()
    only_n1 = {"kubernetes.io/hostname": "n1"}
    trial.place("leader", cpu="1", labels={"app": "db"}, nodeSelector=only_n1)
    trial.place("follower", cpu="1", affinity=must_attract({"app": "db"}))
    trial.place(
        "not-with-db",
        cpu="1",
        affinity=must_repel({"app": "db"}, ZONE),
        nodeSelector={"kubernetes.io/hostname": "n2"},
    )
    trial.place(
        "hermit",
        cpu="1",
        labels={"app": "hermit"},
        nodeSelector={"kubernetes.io/hostname": "n3"},
        affinity=must_repel({"kind": "guest"}),
    )
    trial.place(
        "first-of-group",
        cpu="1",
        labels={"group": "g"},
        affinity=must_attract({"group": "g"}, ZONE),
        nodeSelector=only_n1,
    )
    trial.add_pod("guest", labels={"kind": "guest"}, nodeSelector={"kubernetes.io/hostname": "n3"})
    trial.add_pod("lonely", affinity=must_attract({"app": "nobody"}))
    trial.add_pod(
        "second-leader",
        labels={"app": "db"},
        affinity=must_repel({"app": "db"}),
        nodeSelector=only_n1,
    )
    for name in ("guest", "lonely", "second-leader"):
        trial.refused(name)
    return trial.observe(
        *("leader", "follower", "not-with-db", "hermit", "first-of-group"),
        *("guest", "lonely", "second-leader"),
    )


def one_per_node(trial: Trial) -> Json:
    """Anti-affinity by host name: as many pods as nodes, the next one waits for a new node."""
    for name in ("n1", "n2", "n3"):
        trial.add_node(name)
    trial.start()
    pods = [f"db-{number}" for number in range(4)]
    for name in pods[:3]:
        trial.place(name, labels={"app": "db"}, affinity=must_repel({"app": "db"}))
    trial.add_pod("db-3", labels={"app": "db"}, affinity=must_repel({"app": "db"}))
    trial.refused("db-3")
    before = trial.observe("db-3")
    used = sorted(trial.pods_per_node().items())
    trial.add_node("n4")
    trial.bound("db-3")
    return {"before": before, "used": used, "after": trial.observe("db-3")}


SCENARIOS = (
    by_resources,
    by_node_labels,
    by_taints,
    by_spread,
    by_pod_affinity,
    one_per_node,
)
