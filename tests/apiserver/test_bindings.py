"""Bindings and evictions."""

import pytest

from apiserver.serving import PODS, Client, Json


def condition(pod: Json, kind: str) -> Json:
    found: Json = next(c for c in pod["status"]["conditions"] if c["type"] == kind)
    return found


def test_a_binding_places_the_pod(api: Client) -> None:
    api.create_node("n1", labels={"topology.kubernetes.io/zone": "z1", "other": "x"})
    api.create_pod("a")
    api.patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "n9"}})
    answer = api.bind("a", annotations={"why": "because"})
    assert (answer.code, answer.body["status"]) == (201, "Success")
    bound = api.get(f"{PODS}/a").body
    assert bound["spec"]["nodeName"] == "n1"
    assert condition(bound, "PodScheduled")["status"] == "True"
    assert bound["metadata"]["annotations"] == {"why": "because"}
    assert bound["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z1"}
    assert "nominatedNodeName" not in bound["status"]


def test_a_pod_is_bound_once(api: Client) -> None:
    api.create_pod("a")
    api.bind("a")
    answer = api.bind("a", "n2")
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )


def test_the_binding_may_name_the_pod_instead_of_the_path(api: Client) -> None:
    api.create_pod("a")
    body = {"metadata": {"name": "a"}, "target": {"name": "n1"}}
    assert api.post("/api/v1/namespaces/default/bindings", body).code == 201
    assert api.get(f"{PODS}/a").body["spec"]["nodeName"] == "n1"


def test_pods_that_cannot_be_bound(api: Client) -> None:
    assert api.bind("missing").code == 404
    api.create_pod("gated", schedulingGates=[{"name": "wait"}])
    assert "non-empty .spec.schedulingGates" in api.bind("gated").message
    api.create_pod("going", metadata={"finalizers": ["example.com/hold"]})
    api.delete(f"{PODS}/going")
    assert "is being deleted, cannot be assigned to a host" in api.bind("going").message
    api.create_pod("a")
    assert api.bind("a", "").fields == ["target.name"]
    assert api.bind("a", uid="another").code == 409


def test_a_binding_of_another_uid_is_refused_and_the_right_one_is_not(api: Client) -> None:
    uid = api.create_pod("a")["metadata"]["uid"]
    assert api.bind("a", uid=uid).code == 201


@pytest.fixture
def guarded(api: Client) -> Client:
    """Two running pods of which one must stay."""
    for name in ("a", "b"):
        api.create_pod(name, nodeName="n1", metadata={"labels": {"app": "web"}})
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.patch(f"{PODS}/{name}/status", {"status": ready})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    api.post(path, {"metadata": {"name": "budget"}, "spec": spec})
    return api


def evict(api: Client, name: str) -> tuple[int, Json]:
    answer = api.post(f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
    return answer.code, answer.body


def test_evictions_stop_at_the_disruption_budget(guarded: Client) -> None:
    assert evict(guarded, "a")[0] == 201
    assert guarded.get(f"{PODS}/a").body["metadata"]["deletionTimestamp"]
    code, status = evict(guarded, "b")
    assert (code, status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    assert status["details"]["causes"][0]["message"] == (
        "The disruption budget budget needs 1 healthy pods and has 1 currently"
    )
    # Clients would ask again by themselves, ten times, before they tell anybody.
    assert "retryAfterSeconds" not in status["details"]


def test_a_budget_that_has_just_changed_is_waited_for(guarded: Client) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/budget"
    known = {"observedGeneration": 1, "disruptionsAllowed": 1, "desiredHealthy": 1}
    guarded.patch(f"{path}/status", {"status": known})
    guarded.patch(path, {"spec": {"minAvailable": 2}})
    code, status = evict(guarded, "a")
    assert code == 429
    assert status["details"]["retryAfterSeconds"] == 10
    assert status["details"]["causes"][0]["message"] == (
        "The disruption budget budget is still being processed by the server."
    )


def test_a_maintained_budget_is_believed_and_used_up(guarded: Client) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/budget"
    status = {"observedGeneration": 1, "disruptionsAllowed": 2, "desiredHealthy": 1}
    guarded.patch(f"{path}/status", {"status": status})
    assert evict(guarded, "a")[0] == 201
    left = guarded.get(path).body["status"]
    assert left["disruptionsAllowed"] == 1
    assert list(left["disruptedPods"]) == ["a"]


def test_pending_pods_are_evicted_without_asking(api: Client) -> None:
    api.create_pod("a", metadata={"labels": {"app": "web"}})
    assert evict(api, "a")[0] == 201
    assert api.get(f"{PODS}/a").code == 404
