"""ReplicaSets keep as many pods as they are to have, and only those that they select."""

import pytest

from controllers.stage import START, Stage, workload
from moorage.controllers.objects import Json, controller_of, is_going, labels, meta, rfc3339, status
from moorage.controllers.plan import CreateObject, Write


@pytest.fixture
def stage() -> Stage:
    return Stage()


def _owner(obj: Json) -> str | None:
    owner = controller_of(obj)
    return owner["name"] if owner else None


@pytest.mark.parametrize(
    ("before", "after"), [(0, 0), (0, 3), (3, 5), (5, 2), (4, 0), (0, 700), (700, 1)]
)
def test_there_are_as_many_pods_as_asked_for(stage: Stage, before: int, after: int) -> None:
    stage.create("ReplicaSet", "web", workload(before))
    stage.settle()
    assert len(stage.active()) == before
    stage.patch("ReplicaSet", "web", spec={"replicas": after})
    stage.settle()
    assert len(stage.active()) == after
    counts = status(stage.get("ReplicaSet", "web"))
    assert counts["replicas"] == after
    assert counts.get("readyReplicas", 0) == counts.get("availableReplicas", 0) == after
    assert counts["observedGeneration"] == meta(stage.get("ReplicaSet", "web"))["generation"]


def test_a_replication_controller_does_the_same_with_a_plain_selector(stage: Stage) -> None:
    stage.create("Pod", "mine", {}, labels={"app": "web"})
    stage.create("ReplicationController", "web", {**workload(3), "selector": {"app": "web"}})
    stage.settle()
    assert {_owner(pod) for pod in stage.active()} == {"web"}
    stage.patch("ReplicationController", "web", spec={"replicas": 1})
    stage.settle()
    assert len(stage.active()) == 1
    counts = status(stage.get("ReplicationController", "web"))
    assert counts["replicas"] == counts["readyReplicas"] == 1
    assert "terminatingReplicas" not in counts  # a field that only ReplicaSets have


def test_pods_are_as_the_template_says_and_name_their_owner(stage: Stage) -> None:
    owner = stage.create("ReplicaSet", "web", workload(1))
    stage.settle()
    (pod,) = stage.all("Pod")
    assert meta(pod)["name"].startswith("web-")
    assert labels(pod) == {"app": "web"}
    assert pod["spec"]["containers"] == [{"name": "c", "image": "nginx:1"}]
    assert meta(pod)["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": meta(owner)["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_pods_that_nobody_controls_are_adopted(stage: Stage) -> None:
    stage.create("Pod", "mine", {}, labels={"app": "web"})
    stage.create("Pod", "other", {}, labels={"app": "db"})
    stage.create("ReplicaSet", "web", workload(1))
    stage.settle()
    assert stage.names("Pod") == ["mine", "other"]
    assert _owner(stage.get("Pod", "mine")) == "web"
    assert _owner(stage.get("Pod", "other")) is None


def test_a_pod_that_appears_later_is_adopted_and_one_too_many_goes(stage: Stage) -> None:
    stage.create("ReplicaSet", "web", workload(2))
    stage.settle()
    stage.create("Pod", "late", {}, labels={"app": "web"})
    stage.settle()
    assert len(stage.active()) == 2
    assert {_owner(pod) for pod in stage.active()} == {"web"}


def test_a_pod_that_is_not_selected_any_more_is_released_and_replaced(stage: Stage) -> None:
    stage.create("ReplicaSet", "web", workload(2))
    stage.settle()
    first = stage.names("Pod")[0]
    stage.patch("Pod", first, metadata={"labels": {"app": "debug"}})
    stage.settle()
    assert _owner(stage.get("Pod", first)) is None
    assert len(stage.cluster.controlled("Pod", stage.get("ReplicaSet", "web"))) == 2


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_replaced(stage: Stage, phase: str) -> None:
    stage.create("ReplicaSet", "web", workload(2))
    stage.settle()
    stage.finish(stage.all("Pod")[0], phase)
    stage.settle()
    assert len(stage.active()) == 2


def test_pods_are_available_when_they_have_been_ready_for_long_enough(stage: Stage) -> None:
    stage.create("ReplicaSet", "web", workload(2, minReadySeconds=10))
    stage.settle()
    counts = status(stage.get("ReplicaSet", "web"))
    assert (counts["readyReplicas"], counts.get("availableReplicas", 0)) == (2, 0)
    stage.pass_seconds(10)
    stage.settle()
    assert status(stage.get("ReplicaSet", "web"))["availableReplicas"] == 2


_WORSE_FIRST = [
    ("without a node before on one", {"node": ""}, {"node": "n1"}),
    ("pending before running", {"phase": "Pending"}, {"phase": "Running"}),
    ("not ready before ready", {"ready": "False"}, {"ready": "True"}),
    ("cheap before dear", {"cost": "-1"}, {"cost": "5"}),
    ("crowded before alone", {"node": "n2"}, {"node": "n1"}),
    ("just ready before long ready", {"since": 4000}, {"since": 0}),
    ("restarted before never restarted", {"restarts": 3}, {"restarts": 0}),
]


@pytest.mark.parametrize(
    ("worse", "better"), [row[1:] for row in _WORSE_FIRST], ids=[row[0] for row in _WORSE_FIRST]
)
def test_which_pod_goes_first(stage: Stage, worse: Json, better: Json) -> None:

    def put(name: str, says: Json) -> None:
        ready = {
            "type": "Ready",
            "status": says.get("ready", "True"),
            "lastTransitionTime": rfc3339(START - 5000 + says.get("since", 0)),
        }
        cost = {"controller.kubernetes.io/pod-deletion-cost": says.get("cost", "0")}
        node = says.get("node", "n1")
        spec = {"nodeName": node} if node else {}
        stage.create("Pod", name, spec, labels={"app": "web"}, annotations=cost)
        statuses = [{"restartCount": says.get("restarts", 0)}]
        running = {"phase": says.get("phase", "Running"), "conditions": [ready]}
        stage.patch("Pod", name, status={**running, "containerStatuses": statuses})

    put("better", better)
    put("worse", worse)
    if worse.get("node") == "n2":
        stage.create("ReplicaSet", "web", workload(3))
        put("neighbour", worse)
        stage.patch(
            "Pod",
            "neighbour",
            metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "0"}},
        )
    else:
        stage.create("ReplicaSet", "web", workload(2))
    while stage.step():
        pass
    stage.patch("ReplicaSet", "web", spec={"replicas": len(stage.active()) - 1})
    while stage.step():
        pass
    left = {meta(pod)["name"] for pod in stage.active()}
    assert "better" in left
    assert len(left & {"worse", "neighbour"}) == (1 if "neighbour" in stage.names("Pod") else 0)


def test_pods_that_are_refused_are_in_the_status_until_they_are_not(stage: Stage) -> None:
    def no_pods(write: Write) -> str:
        return "pods are forbidden" if isinstance(write, CreateObject) else ""

    stage.refused = no_pods
    stage.create("ReplicaSet", "web", workload(2))
    stage.settle()
    stage.pass_seconds(1)
    stage.settle()
    (condition,) = status(stage.get("ReplicaSet", "web"))["conditions"]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert condition["message"] == "pods are forbidden"
    stage.refused = lambda write: ""
    stage.pass_seconds(1)
    stage.settle()
    assert len(stage.active()) == 2
    assert not status(stage.get("ReplicaSet", "web")).get("conditions")


def test_one_that_is_being_deleted_makes_no_pods(stage: Stage) -> None:
    stage.create("ReplicaSet", "web", workload(2), deletionTimestamp="2026-01-01T00:00:00Z")
    stage.settle()
    assert stage.names("Pod") == []


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"app": "db"}}])
def test_one_that_would_never_find_its_pods_makes_none(stage: Stage, selector: Json) -> None:
    stage.create("Pod", "a", {}, labels={"app": "web"})
    stage.create("ReplicaSet", "web", {**workload(2), "selector": selector})
    stage.settle()
    assert stage.names("Pod") == ["a"]
    assert not is_going(stage.get("Pod", "a"))
    assert _owner(stage.get("Pod", "a")) is None
