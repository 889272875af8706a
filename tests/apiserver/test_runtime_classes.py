"""What pods take from their RuntimeClass, and which of them are refused."""

from typing import Any

import pytest

from apiserver.serving import PODS, Client, Json, pod

_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
_KEEPER = {"key": "sandbox", "operator": "Exists"}


def _define(api: Client, **more: Any) -> None:
    body = {"metadata": {"name": "kata"}, "handler": "kata", **more}
    assert api.post(_CLASSES, body).code == 201


def _create(api: Client, **spec: Any) -> Json:
    found: Json = api.create_pod("a", runtimeClassName="kata", **spec)["spec"]
    return found


def _refusal(api: Client, **spec: Any) -> str:
    answer = api.post(PODS, pod("a", **spec))
    assert answer.code == 403
    assert api.get(f"{PODS}/a").code == 404
    return answer.message


def test_overhead_selector_and_tolerations_come_from_the_class(api: Client) -> None:
    scheduling = {"nodeSelector": {"sandbox": "kata"}, "tolerations": [_KEEPER]}
    _define(api, overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    spec = _create(api, nodeSelector={"disk": "ssd"})
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"disk": "ssd", "sandbox": "kata"}
    assert spec["tolerations"][-1] == _KEEPER


def test_a_class_that_says_nothing_adds_nothing(api: Client) -> None:
    _define(api)
    spec = _create(api)
    assert "overhead" not in spec
    assert "nodeSelector" not in spec


def test_the_same_overhead_may_be_given(api: Client) -> None:
    _define(api, overhead={"podFixed": {"cpu": "250m"}})
    assert _create(api, overhead={"cpu": "0.25"})["overhead"] == {"cpu": "250m"}


@pytest.mark.parametrize(
    ("own", "both"),
    [
        ([_KEEPER], [_KEEPER]),
        ([{**_KEEPER, "operator": "Equal", "value": "x"}], [_KEEPER]),
        ([{**_KEEPER, "effect": "NoSchedule"}], [_KEEPER]),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
        ([{**_KEEPER, "key": "other"}], [{**_KEEPER, "key": "other"}, _KEEPER]),
    ],
)
def test_only_the_wider_of_two_tolerations_stays(
    api: Client, own: list[Json], both: list[Json]
) -> None:
    _define(api, scheduling={"tolerations": [_KEEPER]})
    given = _create(api, tolerations=own)["tolerations"]
    assert [one for one in given if "tolerationSeconds" not in one] == both


def test_what_contradicts_the_class_is_refused(api: Client) -> None:
    missing = _refusal(api, runtimeClassName="kata")
    assert missing == 'pods "a" is forbidden: pod rejected: RuntimeClass "kata" not found'
    assert _refusal(api, overhead={"cpu": "1"}) == (
        'pods "a" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass '
        "defined Overhead"
    )
    scheduling = {"nodeSelector": {"sandbox": "kata"}}
    _define(api, overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    assert _refusal(api, runtimeClassName="kata", overhead={"cpu": "1"}) == (
        "pods \"a\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's "
        "defined Overhead"
    )
    assert _refusal(api, runtimeClassName="kata", nodeSelector={"sandbox": "gvisor"}) == (
        'pods "a" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[sandbox] = kata; '
        "pod.spec.nodeSelector[sandbox] = gvisor"
    )
