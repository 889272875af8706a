"""Create, read, update and delete, and the words of every refusal."""

from typing import Any

import pytest

from apiserver.serving import PODS, Client, pod


def test_a_new_object_gets_identity_time_and_version(api: Client) -> None:
    created = api.create_pod("a")
    metadata = created["metadata"]
    assert metadata["namespace"] == "default"
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["generation"] == 1
    assert int(metadata["resourceVersion"]) > 1
    assert api.get(f"{PODS}/a").body == created


def test_generated_names_start_with_the_prefix(api: Client) -> None:
    body = pod("x")
    body["metadata"] = {"generateName": "web-"}
    names = {api.post(PODS, body).body["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


def test_a_name_can_be_taken_once(api: Client) -> None:
    api.create_pod("a")
    answer = api.post(PODS, pod("a"))
    assert (answer.code, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'pods "a" already exists'
    assert answer.body["details"] == {"name": "a", "kind": "pods"}


def test_what_is_missing_is_not_found(api: Client) -> None:
    answer = api.get(f"{PODS}/a")
    assert (answer.code, answer.reason) == (404, "NotFound")
    assert answer.message == 'pods "a" not found'
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/x"
    assert api.get(lease).message == 'leases.coordination.k8s.io "x" not found'
    assert api.get("/apis/example.com/v1/things").code == 404
    assert api.get("/api/v1/namespaces/default/pods/a/nothing").code == 404


def test_the_namespace_must_exist(api: Client) -> None:
    answer = api.post("/api/v1/namespaces/nowhere/pods", pod("a"))
    assert (answer.code, answer.message) == (404, 'namespaces "nowhere" not found')


def test_an_update_of_an_old_version_conflicts(api: Client) -> None:
    created = api.create_pod("a")
    api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    answer = api.put(f"{PODS}/a", created)
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on pods "a": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )


def test_an_update_for_another_uid_conflicts(api: Client) -> None:
    api.create_pod("a")
    body = pod("a", metadata={"uid": "1234"})
    answer = api.put(f"{PODS}/a", body)
    assert answer.code == 409
    assert "Precondition failed: UID in precondition: 1234" in answer.message


def test_an_update_without_a_version_overwrites(api: Client) -> None:
    api.post(
        "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}}
    )
    path = "/api/v1/namespaces/default/configmaps/c"
    answer = api.put(path, {"metadata": {"name": "c"}, "data": {"a": "2"}})
    assert (answer.code, answer.body["data"]) == (200, {"a": "2"})


def test_an_update_that_changes_nothing_keeps_its_version(api: Client) -> None:
    created = api.create_pod("a")
    reordered = dict(reversed(list(created.items())))
    assert api.put(f"{PODS}/a", reordered).version == created["metadata"]["resourceVersion"]


def test_generation_counts_changes_of_the_spec_only(api: Client) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.post(path, {"metadata": {"name": "d"}, "spec": spec})
    relabelled = api.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}})
    assert relabelled.body["metadata"]["generation"] == 1
    scaled = api.patch(f"{path}/d", {"spec": {"replicas": 3}})
    assert scaled.body["metadata"]["generation"] == 2


def test_a_lease_needs_its_version_for_an_update_and_is_created_by_one(api: Client) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
    body = {"metadata": {"name": "x"}, "spec": {"holderIdentity": "me"}}
    assert api.put(path, body).code == 201
    refused = api.put(path, body)
    assert (refused.code, refused.fields) == (422, ["metadata.resourceVersion"])
    body["metadata"]["resourceVersion"] = api.get(path).version
    assert api.put(path, body).code == 200


def test_status_updates_change_nothing_but_the_status(api: Client) -> None:
    created = api.create_pod("a")
    created["status"]["phase"] = "Running"
    created["spec"]["nodeName"] = "sneaky"
    answer = api.put(f"{PODS}/a/status", created)
    assert answer.body["status"]["phase"] == "Running"
    assert "nodeName" not in answer.body["spec"]


def test_main_updates_keep_the_status(api: Client) -> None:
    created = api.create_pod("a")
    created["status"]["phase"] = "Failed"
    created["metadata"]["labels"] = {"x": "y"}
    answer = api.put(f"{PODS}/a", created)
    assert answer.body["status"]["phase"] == "Pending"
    assert answer.body["metadata"]["labels"] == {"x": "y"}


def test_a_dry_run_leaves_no_trace(api: Client) -> None:
    assert api.post(f"{PODS}?dryRun=All", pod("a")).code == 201
    assert api.get(f"{PODS}/a").code == 404
    created = api.create_pod("a")
    api.patch(f"{PODS}/a?dryRun=All", {"metadata": {"labels": {"x": "y"}}})
    api.delete(f"{PODS}/a?dryRun=All")
    assert api.get(f"{PODS}/a").body == created
    assert api.post(f"{PODS}?dryRun=Some", pod("b")).code == 400


def test_methods_and_media_types_that_are_not_served(api: Client) -> None:
    assert api.post("/api/v1/pods", pod("a")).code == 405
    assert api.put(PODS, pod("a")).code == 405
    assert api.request("OPTIONS", PODS).code == 405
    assert api.request("POST", PODS, b"x", "text/plain").reason == "UnsupportedMediaType"
    assert api.request("PATCH", f"{PODS}/a", b"{}", "application/json").code == 415
    assert api.request("POST", PODS, b"{").reason == "BadRequest"
    assert api.request("POST", PODS, b"[]").code == 400
    assert api.get(PODS, accept="application/vnd.kubernetes.protobuf").code == 406


def test_a_node_says_all_that_clients_insist_on(api: Client) -> None:
    made = api.post("/api/v1/nodes", {"metadata": {"name": "n"}}).body["status"]
    assert len(made["nodeInfo"]) == 10
    assert made["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    change = {"status": {"nodeInfo": {"kubeletVersion": "v1"}}}
    merge = "application/merge-patch+json"
    changed = api.patch("/api/v1/nodes/n/status", change, merge).body["status"]["nodeInfo"]
    assert (changed["kubeletVersion"], changed["osImage"]) == ("v1", "")


def test_events_have_their_times_even_if_unknown(api: Client) -> None:
    about = {"kind": "Pod", "name": "a", "namespace": "default"}
    event = {"metadata": {"name": "e"}, "involvedObject": about}
    made = api.post("/api/v1/namespaces/default/events", event).body
    assert [made[f] for f in ("firstTimestamp", "lastTimestamp", "eventTime")] == [None] * 3


@pytest.mark.parametrize("what", ["log", "exec", "attach", "portforward", "ephemeralcontainers"])
def test_what_needs_a_container_is_refused_in_a_sentence(api: Client, what: str) -> None:
    api.create_pod("a")
    answer = api.get(f"{PODS}/a/{what}")
    assert (answer.code, answer.reason) == (405, "MethodNotAllowed")
    assert answer.message.startswith("no container runs in this simulated cluster: a pod ")


def test_kind_and_version_of_the_body_must_fit_the_path(api: Client) -> None:
    answer = api.post(PODS, {**pod("a"), "kind": "Node", "apiVersion": "v1"})
    assert answer.code == 400
    assert "cannot be handled as a Pod: converting" in answer.message
    mismatch = api.post(PODS, pod("a", metadata={"namespace": "other"}))
    assert mismatch.code == 400


def test_a_body_may_be_yaml(api: Client) -> None:
    text = b"metadata: {name: c}\ndata: {day: '2020-01-01'}\n"
    path = "/api/v1/namespaces/default/configmaps"
    assert api.request("POST", path, text, "application/yaml").body["data"] == {"day": "2020-01-01"}


def test_a_version_on_create_is_refused(api: Client) -> None:
    answer = api.post(PODS, pod("a", metadata={"resourceVersion": "5"}))
    assert answer.code == 400
    assert "resourceVersion should not be set" in answer.message


def test_events_are_one_list_under_two_groups(api: Client) -> None:
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
        "reason": "Scheduled",
        "note": "assigned",
        "type": "Normal",
        "reportingController": "moorage",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    created = api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert created.body["note"] == "assigned"
    core = api.get("/api/v1/namespaces/default/events/e").body
    assert core["apiVersion"] == "v1"
    assert core["message"] == "assigned"
    assert core["involvedObject"]["name"] == "a"
    assert core["reportingComponent"] == "moorage"
    chosen = "/api/v1/events?fieldSelector=involvedObject.name%3Da,reason%3DScheduled"
    assert api.get(chosen).names == ["e"]
    newer = api.get("/apis/events.k8s.io/v1/namespaces/default/events/e").body
    assert newer == created.body


def test_two_versions_of_a_resource_are_the_same_objects(api: Client) -> None:
    body = {"metadata": {"name": "gpu"}, "spec": {}}
    assert api.post("/apis/resource.k8s.io/v1beta2/deviceclasses", body).code == 201
    stored = api.get("/apis/resource.k8s.io/v1/deviceclasses/gpu").body
    assert stored["apiVersion"] == "resource.k8s.io/v1"


def test_replicas_change_through_scale(api: Client) -> None:
    path = "/apis/apps/v1/namespaces/default/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.post(path, {"metadata": {"name": "r"}, "spec": spec})
    scale = api.get(f"{path}/r/scale").body
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (1, "a=b")
    scale["spec"]["replicas"] = 7
    assert api.put(f"{path}/r/scale", scale).body["spec"]["replicas"] == 7
    assert api.get(f"{path}/r").body["spec"]["replicas"] == 7


_TEMPLATE = {"metadata": {"labels": {"app": "web"}}}
_WORKLOADS = [
    ({"template": _TEMPLATE}, 422, "spec.selector: Required value"),
    (
        {"selector": {}, "template": _TEMPLATE},
        422,
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
    ),
    (
        {"selector": {"matchLabels": {"app": "db"}}, "template": _TEMPLATE},
        422,
        'spec.template.metadata.labels: Invalid value: {"app":"web"}: '
        "`selector` does not match template `labels`",
    ),
    (
        {"selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE, "replicas": -1},
        422,
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        {"selector": {"matchLabels": {"app": "web"}}, "replicas": "three"},
        400,
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of "
        "type int32",
    ),
]


@pytest.mark.parametrize(("spec", "code", "text"), _WORKLOADS)
def test_a_workload_that_could_never_have_its_pods_is_refused(
    api: Client, spec: dict[str, Any], code: int, text: str
) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    answer = api.post(path, {"metadata": {"name": "web"}, "spec": spec})
    assert answer.code == code
    assert answer.message.endswith(text)
    assert api.get(path).names == []


def test_a_job_selects_its_pods_by_its_own_uid(api: Client) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    made = api.post(path, {"metadata": {"name": "j"}, "spec": {"template": {}}}).body
    own = {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}
    assert made["spec"]["selector"] == {"matchLabels": own}
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "j"
    assert own.items() <= labels.items()
