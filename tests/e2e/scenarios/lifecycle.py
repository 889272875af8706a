"""What a scheduler does with pods over time: gates, profiles, other schedulers, restarts."""

import time

from e2e.client import Json
from e2e.objects import HOSTNAME, priority_class
from e2e.observations import skeleton
from e2e.trial import QUIET_SECONDS, Trial


def gates_removed(trial: Trial) -> Json:
    """A gated pod is left alone, without any event, until its last gate goes."""
    trial.add_node("n1")
    trial.start()
    trial.add_pod("gated", schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])
    trial.place("other")
    time.sleep(QUIET_SECONDS)
    before = trial.observe("gated")
    trial.change_pod("gated", {"spec": {"schedulingGates": [{"name": "example.com/b"}]}})
    time.sleep(QUIET_SECONDS)
    between = trial.observe("gated")
    trial.change_pod("gated", {"spec": {"schedulingGates": None}})
    trial.bound("gated")
    return {"before": before, "between": between, "after": trial.observe("gated", "other")}


def several_profiles(trial: Trial) -> Json:
    """Each profile decides by its own plugins and signs its events with its own name."""
    fit = {
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    }
    packer: Json = {
        "schedulerName": "packer",
        "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}],
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
    }
    careless: Json = {
        "schedulerName": "careless",
        "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}},
    }
    trial.add_node("full", cpu="4")
    trial.add_node("empty", cpu="4")
    taints = [{"key": "busy", "effect": "NoSchedule"}]
    trial.add_node("tainted", cpu="4", taints=taints)
    trial.add_bound("load", "full", cpu="2", memory="8Gi")
    trial.start({"profiles": [{"schedulerName": "default-scheduler"}, packer, careless]})
    trial.place("spreads", cpu="500m", memory="2Gi")
    trial.place("packs", cpu="500m", memory="2Gi", schedulerName="packer")
    on_tainted = {HOSTNAME: "tainted"}
    trial.place("goes", nodeSelector=on_tainted, schedulerName="careless")
    trial.add_pod("stays", nodeSelector=on_tainted, schedulerName="packer")
    trial.refused("stays")
    return trial.observe("spreads", "packs", "goes", "stays")


def foreign_scheduler(trial: Trial) -> Json:
    """A pod of another scheduler is left alone; once bound, its place counts."""
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.add_pod("foreign", cpu="1500m", schedulerName="someone-else")
    trial.place("ours", cpu="100m")
    time.sleep(QUIET_SECONDS)
    before = trial.observe("foreign")
    trial.api.bind("foreign", trial.namespace, "n1")
    trial.bound("foreign")
    trial.add_pod("late", cpu="1")
    trial.refused("late")
    return {
        "before": before,
        **trial.observe("ours", "late"),
        "events": trial.event_lines("foreign"),
    }


def deleted_while_pending(trial: Trial) -> Json:
    """Refused and gated pods are deleted; a new pod of the same name is another pod."""
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.add_pod("refused", cpu="4")
    trial.add_pod("gated", schedulingGates=[{"name": "example.com/a"}])
    trial.refused("refused")
    trial.delete_pod("refused", grace=None)
    trial.delete_pod("gated", grace=None)
    trial.gone("refused")
    trial.gone("gated")
    trial.add_node("n2", cpu="8")
    time.sleep(QUIET_SECONDS)
    after_deletion = trial.event_lines("refused")
    trial.place("refused", cpu="2", nodeSelector={HOSTNAME: "n1"})
    trial.place("gated", cpu="1", nodeSelector={HOSTNAME: "n2"})
    return {"after deletion": after_deletion, **trial.observe("refused", "gated")}


def priority_order(trial: Trial) -> Json:
    """Of the pods that wait when the scheduler starts, the most important are placed first."""
    for name, value in (("low", 10), ("middle", 20), ("high", 30)):
        trial.add(priority_class(f"order-{name}", value, preemptionPolicy="Never"))
    trial.add_node("n1", cpu="2")
    for number, level in enumerate(("low", "middle", "high", "low", "high", "middle")):
        trial.add_pod(f"{level}-{number}", cpu="900m", priorityClassName=f"order-{level}")
    trial.start()
    pods = ["high-2", "high-4", "middle-1", "middle-5", "low-0", "low-3"]
    for name in pods[:2]:
        trial.bound(name)
    for name in pods[2:]:
        trial.refused(name)
    return trial.observe(*pods)


def restarted(trial: Trial) -> Json:
    """Killed in the middle and started again: nothing is lost, nothing is bound twice."""
    trial.add_node("n1", cpu="10")
    trial.add_node("n2", cpu="10")
    trial.start()
    trial.add_pod("too-big", cpu="16")
    trial.refused("too-big")
    early = [f"early-{number}" for number in range(30)]
    for name in early:
        trial.add_pod(name, cpu="100m")
    trial.kill()
    late = [f"late-{number}" for number in range(30)]
    for name in late:
        trial.add_pod(name, cpu="100m")
    trial.start()
    for name in early + late:
        trial.bound(name)
    trial.refused("too-big", attempts=2)
    before = trial.observe("too-big")
    trial.add_node("n3", cpu="32")
    trial.bound("too-big")
    bindings = trial.server.bindings(trial.namespace)
    return {
        "before": before,
        **trial.observe("too-big"),
        "bound more than once": sorted(
            name for name, count in (bindings or {}).items() if count != 1
        ),
        "bound": len(early + late),
    }


def api_server_restarted(trial: Trial) -> Json:
    """The API server is killed and comes back: the scheduler goes on where it was."""
    trial.add_node("n1", cpu="4")
    trial.start()
    trial.place("before", cpu="1")
    trial.add_pod("too-big", cpu="8")
    trial.refused("too-big")
    trial.restart_server()
    trial.place("after", cpu="1")
    trial.add_node("n2", cpu="16")
    trial.bound("too-big")
    bindings = trial.server.bindings(trial.namespace)
    if bindings is not None:
        assert bindings == {"before": 1, "after": 1, "too-big": 1}
    return trial.observe("before", "after", "too-big")


def whole_objects(trial: Trial) -> Json:
    """Every field of the status and of the events, as the scheduler writes them."""
    trial.add(priority_class("high", 1000))
    trial.add_node("n1", cpu="2", zone="a")
    trial.start()
    trial.place("placed", cpu="1", labels={"app": "x"})
    trial.add_pod("refused", cpu="4")
    trial.add_pod("preemptor", cpu="2", priorityClassName="high")
    pods = ("placed", "refused", "preemptor")
    trial.preempted("placed")
    trial.refused("refused")
    trial.refused("preemptor")
    trial.observe(*pods)
    exit_code = trial.stop()
    return {"exit code": exit_code} | {name: _whole(trial, name) for name in pods}


def _whole(trial: Trial, name: str) -> object:
    events = trial.events(name)
    for event in events:
        event["metadata"]["name"] = event["metadata"]["name"].rpartition(".")[0]
        # Whether the items of a list name their own kind is up to the server.
        event.pop("apiVersion", None)
        event.pop("kind", None)
    item = trial.pod(name)
    metadata = {key: item["metadata"].get(key) for key in ("labels", "annotations", "generation")}
    return skeleton([metadata, item["status"], *events], trial.plain)


SCENARIOS = (
    gates_removed,
    several_profiles,
    foreign_scheduler,
    deleted_while_pending,
    priority_order,
    restarted,
    api_server_restarted,
    whole_objects,
)
