"""StatefulSets: numbered pods, their order and claims, and updates from the last to the first."""

from typing import Any

import pytest

from controllers.stage import Stage, template, workload
from moorage.controllers.objects import Json, is_going, labels, meta, status


@pytest.fixture
def stage() -> Stage:
    return Stage()


def stateful_set(wanted: int = 3, policy: str = "OrderedReady", **more: Any) -> Json:
    """The spec of a StatefulSet, with the API server's defaults."""
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    defaults = {"podManagementPolicy": policy, "updateStrategy": update, "revisionHistoryLimit": 10}
    return workload(wanted, **{**defaults, "serviceName": "db", **more})


def _work(stage: Stage) -> None:
    """Controllers work, kubelets do not."""
    while stage.step():
        pass


def _images(stage: Stage) -> list[str]:
    return [pod["spec"]["containers"][0]["image"][-1] for pod in stage.all("Pod")]


def test_pods_come_one_after_the_other(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set())
    for wanted in (["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]):
        _work(stage)
        assert stage.names("Pod") == wanted
        stage.kubelets()
    stage.settle()
    found = status(stage.get("StatefulSet", "db"))
    assert found["readyReplicas"] == found["availableReplicas"] == found["currentReplicas"] == 3
    assert (
        found["currentRevision"] == found["updateRevision"] == stage.names("ControllerRevision")[0]
    )


def test_or_all_at_once(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set(policy="Parallel"))
    _work(stage)
    assert stage.names("Pod") == ["db-0", "db-1", "db-2"]


def test_a_pod_knows_its_number_and_its_service(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set(1, ordinals={"start": 5}))
    stage.settle()
    (pod,) = stage.all("Pod")
    assert meta(pod)["name"] == pod["spec"]["hostname"] == "db-5"
    assert pod["spec"]["subdomain"] == "db"
    assert labels(pod)["apps.kubernetes.io/pod-index"] == "5"
    assert labels(pod)["statefulset.kubernetes.io/pod-name"] == "db-5"


def test_each_pod_has_claims_that_stay(stage: Stage) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    stage.create("StatefulSet", "db", stateful_set(2, volumeClaimTemplates=claims))
    stage.settle()
    assert stage.names("PersistentVolumeClaim") == ["data-db-0", "data-db-1"]
    (volume,) = stage.get("Pod", "db-1")["spec"]["volumes"]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
    stage.patch("StatefulSet", "db", spec={"replicas": 1})
    stage.settle()
    stage.patch("StatefulSet", "db", spec={"replicas": 2})
    stage.settle()
    assert stage.names("PersistentVolumeClaim") == ["data-db-0", "data-db-1"]


def test_the_last_goes_first(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set())
    stage.settle()
    stage.patch("StatefulSet", "db", spec={"replicas": 1})
    _work(stage)
    assert [meta(pod)["name"] for pod in stage.all("Pod") if is_going(pod)] == ["db-2"]
    stage.kubelets()
    _work(stage)
    assert [meta(pod)["name"] for pod in stage.all("Pod") if is_going(pod)] == ["db-1"]
    stage.settle()
    assert stage.names("Pod") == ["db-0"]


def test_scaling_down_waits_for_a_pod_that_is_not_ready(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set())
    stage.settle()
    stage.start(stage.get("Pod", "db-0"), ready=False)
    stage.patch("StatefulSet", "db", spec={"replicas": 1})
    _work(stage)
    assert not any(map(is_going, stage.all("Pod")))
    stage.start(stage.get("Pod", "db-0"))
    stage.settle()
    assert stage.names("Pod") == ["db-0"]


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_an_update_replaces_one_after_the_other_the_last_first(stage: Stage, policy: str) -> None:
    stage.create("StatefulSet", "db", stateful_set(policy=policy))
    stage.settle()
    stage.patch("StatefulSet", "db", spec={"template": template("nginx:2")})
    seen: list[str] = []

    def watch() -> None:
        gone = 3 - stage.available()
        assert gone <= 1
        images = "".join(_images(stage))
        if len(images) == 3 and (not seen or seen[-1] != images):
            seen.append(images)

    stage.watch = watch
    stage.settle()
    assert seen == ["111", "112", "122", "222"]
    found = status(stage.get("StatefulSet", "db"))
    assert found["currentRevision"] == found["updateRevision"]
    assert found["updatedReplicas"] == found["currentReplicas"] == 3


def test_only_pods_from_the_partition_on_are_replaced(stage: Stage) -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    stage.create("StatefulSet", "db", stateful_set(updateStrategy=update))
    stage.settle()
    stage.patch("StatefulSet", "db", spec={"template": template("nginx:2")})
    stage.settle()
    assert _images(stage) == ["1", "1", "2"]
    stage.delete("Pod", "db-0")
    stage.settle()
    assert _images(stage) == ["1", "1", "2"]
    found = status(stage.get("StatefulSet", "db"))
    assert found["currentRevision"] != found["updateRevision"]
    assert (found["currentReplicas"], found["updatedReplicas"]) == (2, 1)


def test_on_delete_replaces_what_others_delete(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set(updateStrategy={"type": "OnDelete"}))
    stage.settle()
    stage.patch("StatefulSet", "db", spec={"template": template("nginx:2")})
    stage.settle()
    assert _images(stage) == ["1", "1", "1"]
    stage.delete("Pod", "db-1")
    stage.settle()
    assert _images(stage) == ["1", "2", "1"]


def test_more_than_one_may_be_missing_if_it_says_so(stage: Stage) -> None:
    rolling = {"partition": 0, "maxUnavailable": 2}
    update = {"type": "RollingUpdate", "rollingUpdate": rolling}
    stage.create("StatefulSet", "db", stateful_set(4, updateStrategy=update))
    stage.settle()
    stage.patch("StatefulSet", "db", spec={"template": template("nginx:2")})
    _work(stage)
    assert [meta(pod)["name"] for pod in stage.all("Pod") if is_going(pod)] == ["db-2", "db-3"]
    stage.settle()
    assert _images(stage) == ["2", "2", "2", "2"]


def test_a_failed_pod_is_made_again(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set())
    stage.settle()
    before = meta(stage.get("Pod", "db-1"))["uid"]
    stage.finish(stage.get("Pod", "db-1"), "Failed")
    stage.settle()
    assert meta(stage.get("Pod", "db-1"))["uid"] != before


def test_going_back_numbers_the_old_revision_anew(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set())
    stage.settle()
    for image in ("nginx:2", "nginx:1"):
        stage.patch("StatefulSet", "db", spec={"template": template(image)})
        stage.settle()
    assert sorted(one["revision"] for one in stage.all("ControllerRevision")) == [2, 3]
    assert _images(stage) == ["1", "1", "1"]


def test_keys_of_a_revision_are_in_order_as_clients_write_them(stage: Stage) -> None:
    container = {"name": "c", "image": "nginx:1"}
    given = {"spec": {"containers": [container]}, "metadata": {"labels": {"app": "web"}}}
    stage.create("StatefulSet", "db", stateful_set(1, template=given))
    stage.settle()
    (revision,) = stage.all("ControllerRevision")
    kept = revision["data"]["spec"]["template"]
    assert list(kept) == ["$patch", "metadata", "spec"]
    assert list(kept["spec"]["containers"][0]) == ["image", "name"]


def test_only_so_many_old_revisions_are_kept(stage: Stage) -> None:
    stage.create("StatefulSet", "db", stateful_set(1, revisionHistoryLimit=1))
    for number in range(1, 6):
        stage.patch("StatefulSet", "db", spec={"template": template(f"nginx:{number}")})
        stage.settle()
    assert sorted(one["revision"] for one in stage.all("ControllerRevision")) == [4, 5]
