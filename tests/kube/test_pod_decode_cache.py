"""Pods put together from remembered parts are the pods that reading all of them gives."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube import pod_decode_cache
from moorage.kube.decoding import ObjectReader
from moorage.kube.pod_decode_cache import PodDecodeCache, pod_text
from moorage.kube.resources import RESOURCES
from moorage.model.decode import decode_json
from moorage.model.pod import Pod

Json = dict[str, Any]


def _body(name: str = "p", *, spec: Json | None = None, **metadata: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {"app": "web"},
            **metadata,
        },
        "spec": {"containers": [container], **(spec or {})},
        "status": {"phase": "Pending"},
    }


def _raw(body: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(body))


def _fast(forms: PodDecodeCache, body: Json) -> Pod | None:
    text = pod_text(_raw(body))
    assert text is not None
    return forms.find(text)


def _knowing(*bodies: Json) -> PodDecodeCache:
    forms = PodDecodeCache()
    for body in bodies:
        text = pod_text(_raw(body))
        assert text is not None
        forms.remember(text, decode_json(Pod, msgspec.json.encode(body)))
    return forms


def _with_node(body: Json, node: str) -> Json:
    """As the API server writes it: the node stands between other fields."""
    spec = {"restartPolicy": "Always", "nodeName": node, "hostNetwork": False, **body["spec"]}
    return {**body, "spec": spec}


def _without_node(body: Json) -> Json:
    spec = {"restartPolicy": "Always", "hostNetwork": False, **body["spec"]}
    return {**body, "spec": spec}


def test_a_replica_has_the_spec_of_the_first() -> None:
    forms = _knowing(_body("a"))
    second = _fast(forms, _body("b", resourceVersion="8"))
    assert second == decode_json(Pod, msgspec.json.encode(_body("b", resourceVersion="8")))
    assert second is not None
    third = _fast(forms, _body("c"))
    assert third is not None
    assert third.spec is second.spec
    assert third.requests is second.requests


def test_a_bound_pod_is_what_it_was_with_a_node() -> None:
    forms = _knowing(_without_node(_body()))
    bound = _with_node(_body(), "node-17")
    assert _fast(forms, bound) == decode_json(Pod, msgspec.json.encode(bound))
    assert _fast(forms, _with_node(_body(), "node-18")) is not None


def test_a_label_of_the_nodes_field_name_is_no_node() -> None:
    plain = _body(spec={"nodeSelector": {"disk": "ssd"}})
    misleading = _body(spec={"nodeSelector": {"nodeName": "n1", "disk": "ssd"}})
    forms = _knowing(plain)
    assert _fast(forms, misleading) is None
    both = _body(spec={"nodeName": "n1", "nodeSelector": {"nodeName": "n1", "disk": "ssd"}})
    assert _fast(_knowing(plain, both), both) is None


def test_another_namespace_has_other_forms() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {"affinity": {"podAffinity": required}}
    forms = _knowing(_body(spec=spec))
    assert _fast(forms, _body(spec=spec)) is not None
    assert _fast(forms, _body(spec=spec, namespace="other")) is None


def test_a_pod_that_runs_is_read_as_any_other() -> None:
    running = _body()
    running["status"] = {"phase": "Running", "message": "x" * pod_decode_cache.LONGEST_STATUS}
    assert _fast(_knowing(_body(), running), running) is None


@pytest.mark.parametrize(
    "data", [b"[]", b'{"metadata":{}}', b'{"metadata":{"name":5},"spec":{}}', b"{"]
)
def test_what_is_no_pod_has_no_form(data: bytes) -> None:
    assert pod_text(msgspec.Raw(data)) is None


def test_the_memory_of_forms_is_bounded_by_their_bytes() -> None:
    bodies = []
    for number in range(200):
        body = _body(labels={"n": str(number), "long": "x" * 20_000}, spec={"priority": number})
        bodies.append({**body, "status": {"phase": str(number)}})
    assert len(_knowing(*bodies)) * 20_000 <= 10 * pod_decode_cache.CACHE_BYTES


# Few values, so that parts repeat; names that are also keys; nulls, as Go writes for empty lists.
_words = st.sampled_from(["", "n1", "n2", "nodeName", 'x"nodeName":"n1",', "é\\"])
_maps = st.dictionaries(st.sampled_from(["a", "nodeName"]), _words, max_size=2)
_requests = st.sampled_from([{}, {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "bad"}])
_containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("cd")},
        optional={
            "resources": _requests.map(lambda requests: {"requests": requests}),
            "ports": st.just([{"hostPort": 80}]),
            "args": st.lists(_words, max_size=2),
        },
    ),
    max_size=2,
)
_terms: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"topologyKey": st.just("zone")}, optional={"labelSelector": st.builds(dict, matchLabels=_maps)}
)
_specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": _containers,
        "initContainers": st.none() | _containers,
        "nodeName": _words,
        "nodeSelector": _maps,
        "affinity": st.builds(
            lambda terms: {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            },
            st.lists(_terms, max_size=1),
        ),
        "priority": st.sampled_from([0, 5, "high"]),
    },
)
_statuses = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Running"])},
    optional={
        "conditions": st.none() | st.just([{"type": "PodScheduled", "status": "True"}]),
        "containerStatuses": st.just([{"name": "c", "allocatedResources": {"cpu": "2"}}]),
        "startTime": st.sampled_from(["2026-01-01T00:00:00Z", "never"]),
    },
)
_metas = st.fixed_dictionaries(
    {"name": st.sampled_from(["p", "q", ""])},
    optional={
        "namespace": st.sampled_from(["team", "other", ""]),
        "uid": st.sampled_from(["1", "2"]),
        "resourceVersion": st.sampled_from(["1", "2"]),
        "generation": st.sampled_from([1, None, "x"]),
        "labels": st.none() | _maps,
        "annotations": _maps,
        "ownerReferences": st.just([{"kind": "ReplicaSet", "name": "r", "controller": True}]),
        "finalizers": st.just(["f"]),
        "deletionTimestamp": st.sampled_from([None, "2026-01-01T00:00:00Z"]),
        "managedFields": st.just([{"manager": "m"}]),
    },
)
_pods = st.fixed_dictionaries(
    {"metadata": _metas},
    optional={
        "kind": st.just("Pod"),
        "apiVersion": st.just("v1"),
        "spec": _specs,
        "status": _statuses,
    },
)


@given(st.lists(_pods, max_size=14))
def test_any_pods_read_shortly_equal_pods_read_wholly(bodies: list[Json]) -> None:
    short = ObjectReader(RESOURCES["Pod"])
    whole = ObjectReader(RESOURCES["Pod"], interning=False)
    # Each twice: the first time most parts are new.
    for body in (*bodies, *bodies):
        found, wanted = short.read(_raw(body)), whole.read(_raw(body))
        assert found == wanted
        if isinstance(found, Pod) and isinstance(wanted, Pod):
            assert found.label_set == wanted.label_set
            assert found.requests.occupied == wanted.requests.occupied
            assert found.requests.incoming == wanted.requests.incoming
            assert (found.started, found.host_ports) == (wanted.started, wanted.host_ports)
            assert found.affinity_terms == wanted.affinity_terms
            assert found.required_nodes == wanted.required_nodes


@given(_specs, st.lists(_words, min_size=2, max_size=4))
def test_binding_changes_nothing_but_the_node(spec: Json, nodes: list[str]) -> None:
    spec = {name: value for name, value in spec.items() if name != "nodeName"}
    short = ObjectReader(RESOURCES["Pod"])
    whole = ObjectReader(RESOURCES["Pod"], interning=False)
    for body in (
        _without_node(_body(spec=spec)),
        *(_with_node(_body(spec=spec), node) for node in nodes),
    ):
        assert short.read(_raw(body)) == whole.read(_raw(body))
