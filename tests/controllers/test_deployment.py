"""Deployments: rollouts, scaling, history, conditions; and limits that hold at every moment."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.stage import Stage, template, workload
from moorage.controllers.objects import Json, annotations, labels, meta, replicas, status
from moorage.controllers.plan import CreateObject, Write
from moorage.controllers.rollout import REVISION


@pytest.fixture
def stage() -> Stage:
    return Stage()


def deployment(wanted: int = 3, surge: Any = "25%", unavailable: Any = "25%", **more: Any) -> Json:
    """The spec of a Deployment, with the API server's defaults."""
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    defaults = {"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10}
    return workload(wanted, **{"strategy": strategy, **defaults, **more})


def _settled(stage: Stage, wanted: int = 3, **more: Any) -> Stage:
    stage.create("Deployment", "web", deployment(wanted, **more))
    stage.settle()
    return stage


def _set_image(stage: Stage, image: str) -> None:
    stage.patch("Deployment", "web", spec={"template": template(image)})


def _sizes(stage: Stage) -> list[int]:
    """The replicas of all ReplicaSets, the newest revision last."""
    found = sorted(stage.all("ReplicaSet"), key=lambda one: int(annotations(one)[REVISION]))
    return [replicas(one) for one in found]


def _images(stage: Stage) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in stage.active()}


def _condition(stage: Stage, kind: str) -> Json:
    found = status(stage.get("Deployment", "web"))["conditions"]
    return next(one for one in found if one["type"] == kind)


def test_a_new_one_gets_a_replica_set_named_by_the_hash_of_its_template(stage: Stage) -> None:
    _settled(stage)
    (made,) = stage.all("ReplicaSet")
    unique = labels(made)["pod-template-hash"]
    assert meta(made)["name"] == f"web-{unique}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": unique}
    assert {labels(pod)["pod-template-hash"] for pod in stage.active()} == {unique}
    assert annotations(made)[REVISION] == "1"
    assert annotations(stage.get("Deployment", "web"))[REVISION] == "1"
    assert stage.events[0] == f"ScalingReplicaSet: Scaled up replica set web-{unique} from 0 to 3"


def test_the_status_says_how_far_it_is(stage: Stage) -> None:
    stage.create("Deployment", "web", deployment())
    while stage.step():
        pass
    assert _condition(stage, "Available")["status"] == "False"
    assert _condition(stage, "Progressing")["reason"] == "ReplicaSetUpdated"
    stage.settle()
    found = status(stage.get("Deployment", "web"))
    counts = {name: value for name, value in found.items() if name != "conditions"}
    assert counts == {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
    }
    assert _condition(stage, "Available")["reason"] == "MinimumReplicasAvailable"
    complete = _condition(stage, "Progressing")
    assert (complete["status"], complete["reason"]) == ("True", "NewReplicaSetAvailable")
    assert complete["message"].endswith("has successfully progressed.")


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_another_template_replaces_all_pods(stage: Stage, strategy: str) -> None:
    more: Json = {} if strategy == "RollingUpdate" else {"strategy": {"type": strategy}}
    _settled(stage, **more)
    _set_image(stage, "nginx:2")
    stage.settle()
    assert _images(stage) == {"nginx:2"}
    assert _sizes(stage) == [0, 3]
    assert annotations(stage.get("Deployment", "web"))[REVISION] == "2"


def test_recreate_waits_until_every_old_pod_is_gone(stage: Stage) -> None:
    _settled(stage, strategy={"type": "Recreate"})
    _set_image(stage, "nginx:2")
    while stage.step():
        pass
    assert len(stage.all("Pod")) == 3  # going, but not gone
    assert stage.active() == []
    assert len(stage.all("ReplicaSet")) == 1
    stage.settle()
    assert _images(stage) == {"nginx:2"}


def test_going_back_finds_the_old_replica_set_and_numbers_it_anew(stage: Stage) -> None:
    _settled(stage)
    first = stage.names("ReplicaSet")
    for image in ("nginx:2", "nginx:1"):
        _set_image(stage, image)
        stage.settle()
    assert len(stage.all("ReplicaSet")) == 2
    again = stage.get("ReplicaSet", first[0])
    assert annotations(again)[REVISION] == "3"
    assert annotations(again)["deployment.kubernetes.io/revision-history"] == "1"
    assert annotations(stage.get("Deployment", "web"))[REVISION] == "3"
    assert replicas(again) == 3


def test_annotations_go_along_to_the_replica_set(stage: Stage) -> None:
    cause = {"kubernetes.io/change-cause": "first"}
    stage.create("Deployment", "web", deployment(), annotations=cause)
    stage.settle()
    (made,) = stage.all("ReplicaSet")
    assert annotations(made)["kubernetes.io/change-cause"] == "first"
    stage.patch("Deployment", "web", metadata={"annotations": {"team": "a"}})
    stage.settle()
    assert annotations(stage.all("ReplicaSet")[0])["team"] == "a"


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_only_so_many_old_replica_sets_are_kept(stage: Stage, limit: int) -> None:
    _settled(stage, revisionHistoryLimit=limit)
    for number in range(2, 7):
        _set_image(stage, f"nginx:{number}")
        stage.settle()
    revisions = sorted(int(annotations(one)[REVISION]) for one in stage.all("ReplicaSet"))
    assert revisions == list(range(6 - limit, 7))


@pytest.mark.parametrize("wanted", [0, 1, 7])
def test_scaling_keeps_the_pods_of_the_template(stage: Stage, wanted: int) -> None:
    _settled(stage)
    stage.patch("Deployment", "web", spec={"replicas": wanted})
    stage.settle()
    assert len(stage.active()) == wanted
    assert len(stage.all("ReplicaSet")) == 1


_PROPORTIONS = [
    # old and new size, surge, wanted before and after -> old and new size
    ((8, 3), 1, 10, 20, (15, 6)),
    ((8, 3), 1, 10, 5, (4, 2)),
    ((10, 1), 1, 10, 10, (10, 1)),
    ((5, 5), 0, 10, 4, (2, 2)),
    ((8, 3), 1, 10, 0, (0, 0)),
]


@pytest.mark.parametrize(("sizes", "surge", "before", "after", "expected"), _PROPORTIONS)
def test_scaling_in_the_middle_of_a_rollout_is_shared(
    sizes: tuple[int, int], surge: int, before: int, after: int, expected: tuple[int, int]
) -> None:
    stage = Stage()
    _settled(stage, before, surge=surge, unavailable=1)
    stage.patch("Deployment", "web", spec={"paused": True, "template": template("nginx:2")})
    stage.settle()
    (old,) = stage.all("ReplicaSet")
    unique = {"pod-template-hash": "new"}
    copy = {**old["spec"], "template": template("nginx:2", app="web", **unique)}
    copy["selector"] = {"matchLabels": {"app": "web", **unique}}
    notes = {**annotations(old), REVISION: "2"}
    owners = meta(old)["ownerReferences"]
    more = {"labels": {"app": "web"}, "annotations": notes, "ownerReferences": owners}
    stage.create("ReplicaSet", "web-new", {**copy, "replicas": sizes[1]}, **more)
    stage.patch("ReplicaSet", meta(old)["name"], spec={"replicas": sizes[0]})
    stage.patch("Deployment", "web", spec={"replicas": after})
    stage.settle()
    got = replicas(stage.get("ReplicaSet", meta(old)["name"]))
    assert (got, replicas(stage.get("ReplicaSet", "web-new"))) == expected


def test_a_paused_one_rolls_nothing_out_until_it_is_resumed(stage: Stage) -> None:
    _settled(stage)
    stage.patch("Deployment", "web", spec={"paused": True, "template": template("nginx:2")})
    stage.settle()
    assert _images(stage) == {"nginx:1"}
    assert _condition(stage, "Progressing")["reason"] == "DeploymentPaused"
    stage.patch("Deployment", "web", spec={"paused": False})
    stage.settle()
    assert _images(stage) == {"nginx:2"}
    assert _condition(stage, "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_a_rollout_that_gets_nowhere_is_out_of_time(stage: Stage) -> None:
    _settled(stage, progressDeadlineSeconds=60)
    _set_image(stage, "nginx:2")
    while stage.step():
        pass
    stage.pass_seconds(59)
    while stage.step():
        pass
    assert _condition(stage, "Progressing")["status"] == "True"
    stage.pass_seconds(10)
    while stage.step():
        pass
    late = _condition(stage, "Progressing")
    assert (late["status"], late["reason"]) == ("False", "ProgressDeadlineExceeded")
    stage.settle()
    assert _condition(stage, "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_what_keeps_pods_from_being_made_is_in_the_conditions(stage: Stage) -> None:
    def no_pods(write: Write) -> str:
        return "no room" if isinstance(write, CreateObject) and write.kind == "Pod" else ""

    stage.refused = no_pods
    stage.create("Deployment", "web", deployment())
    for _ in range(3):
        stage.settle()
        stage.pass_seconds(1)
    failure = _condition(stage, "ReplicaFailure")
    assert (failure["reason"], failure["message"]) == ("FailedCreate", "no room")


def test_a_replica_set_that_nobody_controls_is_adopted(stage: Stage) -> None:
    stage.create("ReplicaSet", "web-old", workload(2, "nginx:0"), labels={"app": "web"})
    _settled(stage)
    old = stage.get("ReplicaSet", "web-old")
    assert meta(old)["ownerReferences"][0]["name"] == "web"
    assert replicas(old) == 0
    assert _images(stage) == {"nginx:1"}


def test_two_templates_with_one_name_do_not_get_into_each_others_way(stage: Stage) -> None:
    _settled(stage)
    (name,) = stage.names("ReplicaSet")
    stage.delete("Deployment", "web")
    stage.create("ReplicaSet", name, workload(1, "other"), labels={"app": "other"})
    stage.create("Deployment", "web", deployment())
    stage.settle()
    assert len(stage.all("ReplicaSet")) == 2
    assert _images(stage) >= {"nginx:1"}


_AMOUNTS = st.one_of(st.integers(0, 4), st.sampled_from(["0%", "10%", "25%", "50%", "100%"]))


def _count(amount: int | str, wanted: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    exact = int(amount.rstrip("%")) * wanted / 100
    return int(exact) + (up and exact != int(exact))


@given(
    wanted=st.integers(1, 12),
    surge=_AMOUNTS,
    unavailable=_AMOUNTS,
    images=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_the_limits_of_a_rollout_hold_after_every_single_write(
    wanted: int, surge: int | str, unavailable: int | str, images: list[int], seed: int
) -> None:
    most = wanted + _count(surge, wanted, up=True)
    down = _count(unavailable, wanted, up=False)
    if most == wanted and down == 0:
        down = 1
    stage = _settled(Stage(seed), wanted, surge=surge, unavailable=unavailable)

    def check() -> None:
        assert len(stage.active()) <= most
        assert stage.available() >= wanted - down
        assert sum(map(replicas, stage.all("ReplicaSet"))) <= most

    stage.watch = check
    for image in images:
        _set_image(stage, f"nginx:{image}")
        for _ in range(stage.random.randrange(40)):  # the next change comes in the middle
            stage.step()
            pending = [pod for pod in stage.active() if status(pod).get("phase") == "Pending"]
            if pending and stage.random.random() < 0.5:
                stage.start(stage.random.choice(pending))
            check()
    stage.settle()
    assert _images(stage) == {f"nginx:{images[-1]}"}
    assert stage.available() == len(stage.active()) == wanted
