"""Pods with volumes: where the volume is, whether there is one, and how many a node takes."""

from e2e.client import Json
from e2e.objects import HOSTNAME
from e2e.storage import (
    add_volume,
    bind_claim,
    claim,
    claims,
    driver_limit,
    driver_volume,
    local_volume,
    storage_class,
    volume_chosen_for,
)
from e2e.trial import Trial

_ONE_POD = ["ReadWriteOncePod"]


def chosen_with_the_node(trial: Trial) -> Json:
    """The class waits for the pod: the scheduler picks node and volume together."""
    trial.add(storage_class("local"))
    trial.add_node("n1")
    trial.add_node("n2")
    add_volume(trial, local_volume("small", "n1", "local", size="1Gi"))
    add_volume(trial, local_volume("large", "n2", "local", size="20Gi"))
    trial.add(claim("data", "local"))
    trial.add(claim("more", "local"))
    trial.start()
    trial.add_pod("first", volumes=claims("data"))
    volume = volume_chosen_for(trial, "data")
    annotations = trial.api.get("PersistentVolume", volume)["metadata"].get("annotations", {})
    during = trial.pod("first")["status"].get("nominatedNodeName")
    bind_claim(trial, "data", volume)
    trial.bound("first")
    trial.add_pod("second", volumes=claims("more"))
    trial.refused("second")
    before = trial.observe("second")
    add_volume(trial, local_volume("late", "n1", "local"))
    bind_claim(trial, "more", volume_chosen_for(trial, "more"))
    trial.bound("second")
    return {
        "volume": volume,
        "annotations": annotations,
        "nominated": during,
        "before": before,
        **trial.observe("first", "second"),
    }


def claim_created_later(trial: Trial) -> Json:
    """A claim that does not exist, then exists without a volume, then is bound."""
    trial.add_node("n1")
    trial.start()
    trial.add_pod("waits", volumes=claims("data"))
    trial.refused("waits")
    missing = trial.observe("waits")
    trial.add(claim("data"))
    trial.refused("waits", attempts=2)
    unbound = trial.observe("waits")
    add_volume(trial, driver_volume("disk"))
    bind_claim(trial, "data", "disk")
    trial.bound("waits")
    return {"missing": missing, "unbound": unbound, "after": trial.observe("waits")}


def one_pod_only(trial: Trial) -> Json:
    """A claim of one pod only is free again when that pod has gone."""
    trial.add_node("n1")
    trial.add_node("n2")
    add_volume(trial, driver_volume("disk", _ONE_POD))
    trial.add(claim("data", modes=_ONE_POD))
    bind_claim(trial, "data", "disk")
    trial.start()
    trial.place("first", volumes=claims("data"), nodeSelector={HOSTNAME: "n1"})
    trial.add_pod("second", volumes=claims("data"), nodeSelector={HOSTNAME: "n2"})
    trial.refused("second")
    before = trial.observe("second")
    trial.delete_pod("first")
    trial.bound("second")
    return {"before": before, "after": trial.observe("second")}


def too_many_volumes(trial: Trial) -> Json:
    """A node takes only so many volumes of a driver."""
    trial.add_node("n1")
    trial.add(driver_limit("n1", 2))
    for number in range(3):
        add_volume(trial, driver_volume(f"disk-{number}"))
        trial.add(claim(f"data-{number}"))
        bind_claim(trial, f"data-{number}", f"disk-{number}")
    trial.start()
    trial.place("first", volumes=claims("data-0"))
    trial.place("second", volumes=claims("data-1"))
    trial.place("shares", volumes=claims("data-1"))
    trial.add_pod("third", volumes=claims("data-2"))
    trial.refused("third")
    before = trial.observe("third")
    trial.delete_pod("first")
    trial.bound("third")
    return {"before": before, "after": trial.observe("shares", "third")}


SCENARIOS = (chosen_with_the_node, claim_created_later, one_pod_only, too_many_volumes)
