"""LimitRanges: what containers are given, and what is refused, in kube-apiserver's words."""

from typing import Any

import pytest

from apiserver.serving import PODS, Client, Json, pod

_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def _limit(api: Client, kind: str = "Container", name: str = "l", **limits: Any) -> Json:
    path = "/api/v1/namespaces/default/limitranges"
    body = {"metadata": {"name": name}, "spec": {"limits": [{"type": kind, **limits}]}}
    answer = api.post(path, body)
    assert answer.code == 201, answer.body
    (found,) = answer.body["spec"]["limits"]
    return dict(found)


def _container(**resources: Any) -> Json:
    return {"name": "c", "image": "i", "resources": resources}


def test_defaults_follow_from_limits(api: Client) -> None:
    found = _limit(api, min={"cpu": "100m", "memory": "1Mi"}, max={"cpu": "2"})
    assert found["default"] == {"cpu": "2"}
    assert found["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


def test_containers_get_what_they_do_not_mention(api: Client) -> None:
    _limit(api, default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
    made = api.create_pod(
        "a", containers=[_container(limits={"memory": "2Gi"}, requests={"cpu": "100m"})]
    )
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "2Gi", "cpu": "1"},
        "requests": {"cpu": "100m", "memory": "2Gi"},
    }
    annotations = made["metadata"]["annotations"]
    assert annotations["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu limit for container c"
    )
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("limits", "resources", "why"),
    [
        (
            {"max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"min": {"memory": "1Gi"}},
            {"requests": {"memory": "512Mi"}},
            "minimum memory usage per Container is 1Gi, but request is 512Mi",
        ),
        (
            {"min": {"cpu": "100m"}, "max": {"cpu": "1"}},
            {"requests": {"cpu": "50m"}, "limits": {"cpu": "3"}},
            "[minimum cpu usage per Container is 100m, but request is 50m, "
            "maximum cpu usage per Container is 1, but limit is 3]",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {},
            "cpu max limit to request ratio per Container is 2, but no request is specified or "
            "request is 0",
        ),
    ],
)
def test_a_pod_beyond_the_limits_is_refused(
    api: Client, limits: Json, resources: Json, why: str
) -> None:
    _limit(api, **limits)
    answer = api.post(PODS, pod("a", containers=[_container(**resources)]))
    assert answer.code == 403
    assert answer.body["message"] == f'pods "a" is forbidden: {why}'


def test_limits_of_a_pod_count_its_containers_together(api: Client) -> None:
    _limit(api, "Pod", max={"memory": "1Gi"})
    each = {"limits": {"memory": "600Mi"}}
    two = [{**_container(**each), "name": name} for name in ("a", "b")]
    answer = api.post(PODS, pod("a", containers=two))
    assert answer.code == 403
    assert answer.body["message"] == (
        'pods "a" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 1200Mi'
    )
    assert api.post(PODS, pod("a", containers=two[:1])).code == 201


def test_a_claim_for_too_much_storage_is_refused(api: Client) -> None:
    _limit(api, "PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "5Gi"})
    claim: Json = {
        "metadata": {"name": "d"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    answer = api.post(_CLAIMS, claim)
    assert answer.code == 403
    assert answer.body["message"] == (
        'persistentvolumeclaims "d" is forbidden: maximum storage usage per PersistentVolumeClaim '
        "is 5Gi, but request is 10Gi"
    )


def test_other_namespaces_are_free(api: Client) -> None:
    _limit(api, max={"cpu": "1"})
    elsewhere = "/api/v1/namespaces/kube-system/pods"
    assert api.post(elsewhere, pod("a", containers=[_container()])).code == 201


def test_an_amount_that_is_none_is_refused(api: Client) -> None:
    body = {
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "much"}}]},
    }
    assert api.post("/api/v1/namespaces/default/limitranges", body).code == 400
