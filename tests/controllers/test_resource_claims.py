"""ResourceClaims from templates, and devices that are free again."""

from typing import Any

import pytest

from controllers.stage import Stage
from moorage.controllers.objects import Json, meta, spec, status

_ALLOCATED: Json = {"devices": {"results": []}}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def _template(stage: Stage) -> None:
    inside = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    stage.create("ResourceClaimTemplate", "one-gpu", {"spec": inside})


def _pod(stage: Stage, name: str = "p", **claim: Any) -> Json:
    wanted = claim or {"resourceClaimTemplateName": "one-gpu"}
    return stage.create("Pod", name, {"resourceClaims": [{"name": "gpu", **wanted}]})


def _reserve(stage: Stage, name: str, *pods: str) -> None:
    """What the scheduler writes when it places pods."""
    reserved = [
        {"resource": "pods", "name": pod, "uid": meta(stage.get("Pod", pod))["uid"]} for pod in pods
    ]
    finalizers = {"finalizers": ["resource.kubernetes.io/delete-protection"]}
    news = {"allocation": _ALLOCATED, "reservedFor": reserved}
    stage.patch("ResourceClaim", name, metadata=finalizers, status=news)


def test_a_pod_gets_the_claim_that_its_template_describes(stage: Stage) -> None:
    _template(stage)
    _pod(stage)
    stage.settle()
    (claim,) = stage.all("ResourceClaim")
    assert meta(claim)["name"].startswith("p-gpu-")
    assert meta(claim)["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert spec(claim)["devices"]["requests"][0]["name"] == "gpu"
    named = {"name": "gpu", "resourceClaimName": meta(claim)["name"]}
    assert status(stage.get("Pod", "p"))["resourceClaimStatuses"] == [named]


def test_a_template_may_come_later(stage: Stage) -> None:
    _pod(stage)
    stage.settle()
    assert stage.all("ResourceClaim") == []
    _template(stage)
    stage.settle()
    assert len(stage.all("ResourceClaim")) == 1


def test_a_claim_shared_by_pods_is_free_again_when_the_last_is_done(stage: Stage) -> None:
    stage.create("ResourceClaim", "shared", {"devices": {}})
    for name in ("a", "b"):
        _pod(stage, name, resourceClaimName="shared")
    stage.settle()
    _reserve(stage, "shared", "a", "b")
    stage.settle()
    stage.finish(stage.get("Pod", "a"))
    stage.settle()
    claim = stage.get("ResourceClaim", "shared")
    assert [one["name"] for one in status(claim)["reservedFor"]] == ["b"]
    assert status(claim)["allocation"] == _ALLOCATED
    stage.delete("Pod", "b")
    stage.settle()
    claim = stage.get("ResourceClaim", "shared")
    assert (status(claim), meta(claim).get("finalizers")) == ({}, None)


def test_the_claim_of_a_pod_that_has_ended_goes(stage: Stage) -> None:
    _template(stage)
    _pod(stage)
    stage.settle()
    (name,) = stage.names("ResourceClaim")
    _reserve(stage, name, "p")
    stage.settle()
    stage.finish(stage.get("Pod", "p"))
    stage.settle()
    assert stage.all("ResourceClaim") == []


def test_a_pod_that_has_not_been_seen_yet_keeps_its_reservation(stage: Stage) -> None:
    stage.create("ResourceClaim", "c", {"devices": {}})
    reserved = [{"resource": "pods", "name": "new", "uid": "not-seen"}]
    stage.patch("ResourceClaim", "c", status={"allocation": _ALLOCATED, "reservedFor": reserved})
    stage.settle()
    assert status(stage.get("ResourceClaim", "c"))["reservedFor"] == reserved
