"""DaemonSets: a pod on each node that suits, no more, and updates within their limits."""

from typing import Any

import pytest

from controllers.stage import Stage, template, workload
from moorage.controllers.objects import Json, meta, status


@pytest.fixture
def stage() -> Stage:
    return Stage()


def daemon_set(surge: Any = 0, unavailable: Any = 1, **more: Any) -> Json:
    """The spec of a DaemonSet, with the API server's defaults."""
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    update = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return workload(None, **{"updateStrategy": update, "revisionHistoryLimit": 10, **more})


def _nodes(stage: Stage, count: int = 3) -> None:
    for number in range(count):
        stage.create("Node", f"n{number}", {}, labels={"disk": "ssd" if number else "hdd"})


def _bind(stage: Stage) -> None:
    """What the scheduler does: a pod goes where its affinity says."""
    for pod in stage.all("Pod"):
        if not pod["spec"].get("nodeName"):
            stage.patch("Pod", meta(pod)["name"], spec={"nodeName": _target(pod)})


def _target(pod: Json) -> str:
    required = pod["spec"]["affinity"]["nodeAffinity"]
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(term["matchFields"][0]["values"][0])


def _settle(stage: Stage) -> None:
    stage.settle()
    _bind(stage)
    stage.settle()


def _where(stage: Stage) -> list[str]:
    return sorted(_target(pod) for pod in stage.active())


def test_every_node_gets_one(stage: Stage) -> None:
    _nodes(stage)
    stage.create("DaemonSet", "web", daemon_set())
    _settle(stage)
    assert _where(stage) == ["n0", "n1", "n2"]
    found = status(stage.get("DaemonSet", "web"))
    for count in ("desiredNumberScheduled", "currentNumberScheduled", "numberReady"):
        assert found[count] == 3
    assert found["updatedNumberScheduled"] == found["numberAvailable"] == 3
    assert found["numberMisscheduled"] == 0


def test_nodes_that_come_and_go(stage: Stage) -> None:
    _nodes(stage, 1)
    stage.create("DaemonSet", "web", daemon_set())
    _settle(stage)
    stage.create("Node", "late", {})
    _settle(stage)
    assert _where(stage) == ["late", "n0"]
    stage.delete("Node", "n0", "")
    _settle(stage)
    assert _where(stage) == ["late"]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, ["n1", "n2"]),
        ({"nodeName": "n1"}, ["n1"]),
        ({"nodeSelector": {"disk": "none"}}, []),
    ],
)
def test_only_where_it_may_run(stage: Stage, pod: Json, expected: list[str]) -> None:
    _nodes(stage)
    made = template()
    made["spec"] |= pod
    stage.create("DaemonSet", "web", daemon_set(template=made))
    _settle(stage)
    assert _where(stage) == expected


@pytest.mark.parametrize(
    ("taint", "new", "running"),
    [("NoSchedule", 2, 3), ("NoExecute", 2, 2), ("PreferNoSchedule", 3, 3)],
)
def test_taints_keep_pods_out_or_drive_them_away(
    stage: Stage, taint: str, new: int, running: int
) -> None:
    _nodes(stage)
    stage.create("DaemonSet", "early", daemon_set())
    _settle(stage)
    stage.patch("Node", "n1", "", spec={"taints": [{"key": "k", "effect": taint}]})
    _settle(stage)
    assert len(stage.active()) == running
    stage.delete("DaemonSet", "early")
    stage.create("DaemonSet", "late", daemon_set())
    _settle(stage)
    assert len(stage.active()) == new


def test_a_cordoned_node_gets_one_all_the_same(stage: Stage) -> None:
    _nodes(stage, 1)
    cordoned = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    stage.patch("Node", "n0", "", spec={"unschedulable": True, "taints": cordoned})
    stage.create("DaemonSet", "web", daemon_set())
    _settle(stage)
    assert _where(stage) == ["n0"]


@pytest.mark.parametrize("unavailable", [1, 2, "50%"])
def test_an_update_leaves_enough_pods(stage: Stage, unavailable: int | str) -> None:
    _nodes(stage, 4)
    stage.create("DaemonSet", "web", daemon_set(unavailable=unavailable))
    _settle(stage)
    allowed = 2 if unavailable == "50%" else int(unavailable)
    fewest = [4]

    def watch() -> None:
        fewest[0] = min(fewest[0], stage.available())

    stage.watch = watch
    stage.patch("DaemonSet", "web", spec={"template": template("nginx:2")})
    _settle(stage)
    assert fewest[0] == 4 - allowed
    assert {pod["spec"]["containers"][0]["image"] for pod in stage.active()} == {"nginx:2"}
    assert _where(stage) == ["n0", "n1", "n2", "n3"]


def test_with_a_surge_the_old_pod_stays_until_the_new_one_serves(stage: Stage) -> None:
    _nodes(stage)
    stage.create("DaemonSet", "web", daemon_set(surge=1, unavailable=0))
    _settle(stage)
    most = [0]

    def watch() -> None:
        assert stage.available() >= 3
        most[0] = max(most[0], len(stage.active()))

    stage.watch = watch
    stage.patch("DaemonSet", "web", spec={"template": template("nginx:2")})
    _settle(stage)
    assert most[0] == 4
    assert {pod["spec"]["containers"][0]["image"] for pod in stage.active()} == {"nginx:2"}


def test_on_delete_replaces_what_others_delete(stage: Stage) -> None:
    _nodes(stage)
    stage.create("DaemonSet", "web", daemon_set(updateStrategy={"type": "OnDelete"}))
    _settle(stage)
    stage.patch("DaemonSet", "web", spec={"template": template("nginx:2")})
    _settle(stage)
    stage.delete("Pod", stage.names("Pod")[0])
    _settle(stage)
    images = sorted(pod["spec"]["containers"][0]["image"] for pod in stage.active())
    assert images == ["nginx:1", "nginx:1", "nginx:2"]
    assert status(stage.get("DaemonSet", "web"))["updatedNumberScheduled"] == 1


def test_a_pod_that_has_failed_is_made_again(stage: Stage) -> None:
    _nodes(stage, 1)
    stage.create("DaemonSet", "web", daemon_set())
    _settle(stage)
    (before,) = stage.all("Pod")
    stage.finish(before, "Failed")
    _settle(stage)
    (after,) = stage.all("Pod")
    assert meta(after)["uid"] != meta(before)["uid"]


def test_one_that_goes_keeps_no_record_of_itself(stage: Stage) -> None:
    """In the foreground it waits for what it owns, and must not make that anew."""
    _nodes(stage)
    stage.create("DaemonSet", "agent", daemon_set())
    _settle(stage)
    going = {"deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["foregroundDeletion"]}
    stage.patch("DaemonSet", "agent", metadata=going)
    for kind in ("Pod", "ControllerRevision"):
        for name in stage.names(kind):
            stage.delete(kind, name)
    stage.settle()
    assert stage.names("ControllerRevision") + stage.names("Pod") == []
