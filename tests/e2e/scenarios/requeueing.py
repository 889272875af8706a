"""What brings a refused pod back: the event that can help, and only that one.

Every scenario first lets an event pass that cannot help and counts the attempts after it.
"""

from e2e.client import Json
from e2e.objects import HOSTNAME, must_attract, must_be_on, spread, taint, toleration
from e2e.trial import Trial

_ON_N1 = {HOSTNAME: "n1"}


def node_added(trial: Trial) -> Json:
    """Too little CPU: a node that is too small does not help, a larger one does."""
    trial.add_node("n1", cpu="1")
    trial.start()
    trial.add_pod("waits", cpu="2")
    trial.refused("waits")
    trial.change_node("n1", {"metadata": {"labels": {"colour": "red"}}})
    after_label = trial.stays_refused("waits")
    trial.add_node("n2", cpu="1")
    after_small = trial.stays_refused("waits")
    before = trial.observe("waits")
    trial.add_node("n3", cpu="4")
    trial.bound("waits")
    return {
        "attempts": [after_label, after_small],
        "before": before,
        "after": trial.observe("waits"),
    }


def node_grows(trial: Trial) -> Json:
    """Too little CPU: more of it on the node helps, more memory does not."""
    trial.add_node("n1", cpu="1", memory="4Gi")
    trial.start()
    trial.add_pod("waits", cpu="2")
    trial.refused("waits")
    trial.set_allocatable("n1", memory="8Gi")
    after_memory = trial.stays_refused("waits")
    trial.set_allocatable("n1", cpu="4")
    trial.bound("waits")
    return {"attempts": after_memory, **trial.observe("waits")}


def no_nodes(trial: Trial) -> Json:
    """Without any node the pod is tried again after its back-off, whatever happens."""
    trial.start()
    trial.add_pod("waits")
    trial.refused("waits")
    before = trial.observe("waits")
    trial.add_node("n1")
    trial.bound("waits")
    return {"before": before, "after": trial.observe("waits")}


def taint_removed(trial: Trial) -> Json:
    """A taint in the way: its removal helps, a new label does not; nor does another taint."""
    trial.add_node("n1", taints=[taint("busy"), taint("broken")])
    trial.start()
    trial.add_pod("waits")
    trial.refused("waits")
    before = trial.observe("waits")
    trial.change_node("n1", {"metadata": {"labels": {"colour": "red"}}})
    after_label = trial.stays_refused("waits")
    trial.change_node("n1", {"spec": {"taints": [taint("broken")]}})
    after_one = trial.stays_refused("waits")
    between = trial.observe("waits")
    trial.change_node("n1", {"spec": {"taints": None}})
    trial.bound("waits")
    return {
        "attempts": [after_label, after_one],
        "before": before,
        "between": between,
        "after": trial.observe("waits"),
    }


def uncordoned(trial: Trial) -> Json:
    """A cordoned node is opened."""
    trial.add_node("n1", unschedulable=True)
    trial.start()
    trial.add_pod("waits")
    trial.refused("waits")
    trial.change_node("n1", {"metadata": {"labels": {"colour": "red"}}})
    after_label = trial.stays_refused("waits")
    before = trial.observe("waits")
    trial.change_node("n1", {"spec": {"unschedulable": None}})
    trial.bound("waits")
    return {"attempts": after_label, "before": before, "after": trial.observe("waits")}


def node_labelled(trial: Trial) -> Json:
    """A label that the node affinity wants: another label or more CPU does not help."""
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.add_pod("waits", affinity=must_be_on("disk", "In", "ssd"))
    trial.refused("waits")
    trial.change_node("n1", {"metadata": {"labels": {"disk": "hdd"}}})
    after_other = trial.stays_refused("waits")
    trial.set_allocatable("n1", cpu="8")
    after_cpu = trial.stays_refused("waits")
    trial.change_node("n1", {"metadata": {"labels": {"disk": "ssd"}}})
    trial.bound("waits")
    return {"attempts": [after_other, after_cpu], **trial.observe("waits")}


def pod_deleted(trial: Trial) -> Json:
    """A full node: the end of any pod there is a reason to try again."""
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.place("big", cpu="2")
    trial.place("nothing", cpu="0")
    trial.add_pod("waits", cpu="1")
    trial.refused("waits")
    trial.delete_pod("nothing")
    after_nothing = trial.stays_refused("waits")
    trial.delete_pod("big")
    trial.bound("waits")
    return {"attempts": after_nothing, **trial.observe("waits")}


def pod_finished(trial: Trial) -> Json:
    """A pod that has succeeded gives its place back."""
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.place("job", cpu="2")
    trial.add_pod("waits", cpu="1")
    trial.refused("waits")
    change = {"status": {"phase": "Succeeded"}}
    trial.api.patch("Pod", "job", change, trial.namespace, subresource="status")
    trial.bound("waits")
    return trial.observe("waits")


def pod_labelled(trial: Trial) -> Json:
    """Pod affinity: a running pod gets the label that is looked for, after another one."""
    trial.add_node("n1")
    trial.start()
    trial.place("other", labels={"app": "x"})
    trial.add_pod("waits", affinity=must_attract({"app": "db"}))
    trial.refused("waits")
    trial.change_pod("other", {"metadata": {"labels": {"colour": "red"}}})
    after_other = trial.stays_refused("waits")
    trial.change_pod("other", {"metadata": {"labels": {"app": "db"}}})
    trial.bound("waits")
    return {"attempts": after_other, **trial.observe("waits")}


def spread_released(trial: Trial) -> Json:
    """Spreading: the end of a counted pod helps, the end of another one does not."""
    web = {"app": "web"}
    trial.add_node("n1")
    trial.add_node("n2", unschedulable=True)
    trial.start()
    policy = spread(web, key=HOSTNAME)
    trial.place("web-0", labels=web, topologySpreadConstraints=[policy])
    trial.place("other")
    trial.add_pod("web-1", labels=web, topologySpreadConstraints=[policy])
    trial.refused("web-1")
    before = trial.observe("web-1")
    trial.delete_pod("other")
    after_other = trial.stays_refused("web-1")
    trial.delete_pod("web-0")
    trial.bound("web-1")
    return {"attempts": after_other, "before": before, "after": trial.observe("web-1")}


def toleration_added(trial: Trial) -> Json:
    """The pod itself changes: a label of it does not help, a toleration does."""
    trial.add_node("n1", taints=[taint("busy")])
    trial.start()
    created = trial.add_pod("waits", nodeSelector=_ON_N1)
    trial.refused("waits")
    trial.change_pod("waits", {"metadata": {"labels": {"colour": "red"}}})
    after_label = trial.stays_refused("waits")
    tolerations = [*created["spec"]["tolerations"], toleration("busy")]
    trial.change_pod("waits", {"spec": {"tolerations": tolerations}})
    trial.bound("waits")
    return {"attempts": after_label, **trial.observe("waits")}


def port_released(trial: Trial) -> Json:
    """A host port in use: the pod that holds it goes, after one that does not."""
    trial.add_node("n1")
    trial.start()
    trial.place("holder", ports=[8080])
    trial.place("other", ports=[9090])
    trial.add_pod("waits", ports=[8080])
    trial.refused("waits")
    trial.delete_pod("other")
    after_other = trial.stays_refused("waits")
    trial.delete_pod("holder")
    trial.bound("waits")
    return {"attempts": after_other, **trial.observe("waits")}


SCENARIOS = (
    node_added,
    node_grows,
    no_nodes,
    taint_removed,
    uncordoned,
    node_labelled,
    pod_deleted,
    pod_finished,
    pod_labelled,
    spread_released,
    toleration_added,
    port_released,
)
