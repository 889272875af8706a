"""Pods of one form share their demand; it is what each of them would have worked out alone."""

from collections.abc import Callable
from typing import Any
from weakref import ref

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.model.decode import decode_json
from moorage.model.pod import Pod
from moorage.model.pod_requests import PodRequests, _compute

Json = dict[str, Any]

_amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/crane"]), st.sampled_from(["1", "2", "500m"])
)
_resources = st.fixed_dictionaries({}, optional={"requests": _amounts})
_names = st.sampled_from(["c", "d"])
_containers = st.lists(
    st.fixed_dictionaries(
        {"name": _names},
        optional={"resources": _resources, "restartPolicy": st.just("Always")},
    ),
    max_size=2,
)
_statuses = st.lists(
    st.fixed_dictionaries(
        {"name": _names}, optional={"resources": _resources, "allocatedResources": _amounts}
    ),
    max_size=2,
)
_conditions = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["PodResizePending", "Ready"]),
            "reason": st.sampled_from(["Infeasible", "Deferred"]),
        }
    ),
    max_size=1,
)
_pods = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "p"}),
        "spec": st.fixed_dictionaries(
            {"containers": _containers},
            optional={
                "initContainers": _containers,
                "overhead": _amounts,
                "resources": _resources,
            },
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "containerStatuses": _statuses,
                "initContainerStatuses": _statuses,
                "conditions": _conditions,
                "resources": _resources,
                "allocatedResources": _amounts,
            },
        ),
    }
)


def _parts(requests: PodRequests) -> tuple[Any, ...]:
    return msgspec.structs.astuple(requests)


@given(st.lists(_pods, min_size=1, max_size=8))
def test_a_shared_demand_is_the_pods_own(bodies: list[Json]) -> None:
    for body in bodies:
        pod = decode_json(Pod, msgspec.json.encode(body))
        assert _parts(pod.requests) == _parts(_compute(pod))


def _running(name: str, cpu: str) -> Pod:
    requests = {"requests": {"cpu": cpu}}
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"containerStatuses": [{"name": "c", "resources": requests}]},
    }
    return decode_json(Pod, msgspec.json.encode(body))


def test_running_replicas_share_their_demand_until_one_is_resized() -> None:
    first, second, resized = _running("a", "1"), _running("b", "1"), _running("c", "2")
    assert first.requests is second.requests
    assert resized.requests is not first.requests
    assert resized.requests.occupied["cpu"] == 2000


def _with_own(name: str, word: str) -> Pod:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {word: "x"}}}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {word: "7"}}}],
            "affinity": {"podAntiAffinity": rules},
        },
    }
    return decode_json(Pod, msgspec.json.encode(body))


@pytest.mark.parametrize(
    "shared", [lambda pod: pod.requests, lambda pod: pod.affinity_terms], ids=["demand", "affinity"]
)
def test_what_pods_share_lives_as_long_as_one_of_them(shared: Callable[[Pod], Any]) -> None:
    first, second = _with_own("a", "only.here/one"), _with_own("b", "only.here/one")
    known = ref(shared(first))
    assert shared(second) is known()
    del first
    assert known() is not None
    del second
    assert known() is None
