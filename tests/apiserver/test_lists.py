"""Lists: selectors, pages, versions, and the forms an answer can take."""

import pytest

from apiserver.serving import PODS, Client, Serving, pod
from moorage.apiserver.listing import KEPT_SECONDS
from moorage.apiserver.server import ApiServer

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def pods(api: Client) -> Client:
    for name, labels, node in (
        ("a", {"app": "web", "tier": "1"}, "n1"),
        ("b", {"app": "web", "tier": "2"}, "n2"),
        ("c", {"app": "db"}, ""),
        ("d", {}, ""),
    ):
        spec = {"nodeName": node} if node else {"schedulerName": "other"}
        api.create_pod(name, metadata={"labels": labels}, **spec)
    return api


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", "ab"),
        ("app==web,tier!=1", "b"),
        ("app!=web", "cd"),
        ("app in (web, db)", "abc"),
        ("app notin (web)", "cd"),
        ("app", "abc"),
        ("!app", "d"),
        ("tier>1", "b"),
        ("tier<2", "a"),
        ("app in (web),!missing", "ab"),
    ],
)
def test_label_selectors(pods: Client, selector: str, names: str) -> None:
    quoted = selector.replace(" ", "%20").replace("=", "%3D").replace("!", "%21")
    quoted = quoted.replace("<", "%3C").replace(">", "%3E")
    assert pods.get(f"{PODS}?labelSelector={quoted}").names == list(names)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "bcd"),
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName=", "cd"),
        ("spec.nodeName!=", "ab"),
        ("status.phase=Pending,spec.schedulerName=other", "cd"),
        ("status.phase!=Pending", ""),
        ("metadata.namespace=default,spec.nodeName==n2", "b"),
    ],
)
def test_field_selectors(pods: Client, selector: str, names: str) -> None:
    quoted = selector.replace("=", "%3D").replace("!", "%21")
    assert pods.get(f"/api/v1/pods?fieldSelector={quoted}").names == list(names)


@pytest.mark.parametrize("query", ["labelSelector=a%3D%3D%3Db", "fieldSelector=spec.image%3Dx"])
def test_selectors_that_mean_nothing_are_refused(api: Client, query: str) -> None:
    assert api.get(f"{PODS}?{query}").code == 400


def test_an_unknown_field_is_named(api: Client) -> None:
    answer = api.get(f"{PODS}?fieldSelector=spec.image%3Dx")
    assert answer.message.endswith("field label not supported: spec.image")


def test_lists_come_in_order_of_namespace_and_name(api: Client) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "another"}})
    for namespace, name in (("default", "b"), ("default", "a"), ("another", "z")):
        api.post(f"/api/v1/namespaces/{namespace}/pods", pod(name))
    assert api.get("/api/v1/pods").names == ["z", "a", "b"]
    assert api.get("/api/v1/namespaces/another/pods").names == ["z"]


def test_pages_show_one_moment(pods: Client) -> None:
    first = pods.get(f"{PODS}?limit=2")
    assert first.names == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 2
    pods.delete(f"{PODS}/c")
    token = first.body["metadata"]["continue"]
    second = pods.get(f"{PODS}?limit=2&continue={token}")
    assert second.names == ["c", "d"]
    assert second.version == first.version
    assert "continue" not in second.body["metadata"]


def test_pages_are_kept_for_some_minutes() -> None:
    now = 1_000_000.0
    serving = Serving(lambda: ApiServer(clock=lambda: now))
    try:
        api = Client(serving.url)
        token = api.get("/api/v1/namespaces?limit=1").body["metadata"]["continue"]
        page = f"/api/v1/namespaces?limit=1&continue={token}"
        now += KEPT_SECONDS
        assert api.get(page).code == 200
        now += 1.0
        assert api.get(page).code == 410
    finally:
        serving.stop()


def test_a_page_that_is_too_old_expires(pods: Client, serving: Serving) -> None:
    token = pods.get(f"{PODS}?limit=2").body["metadata"]["continue"]
    serving.call(serving.server.faults.compact)
    answer = pods.get(f"{PODS}?limit=2&continue={token}")
    assert (answer.code, answer.reason) == (410, "Expired")
    assert pods.get(f"{PODS}?continue=garbage").code == 400


def test_an_exact_version_shows_the_past(pods: Client) -> None:
    version = pods.get(PODS).version
    pods.delete(f"{PODS}/c")
    pods.create_pod("e")
    pods.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "changed"}}})
    past = pods.get(f"{PODS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert past.names == ["a", "b", "c", "d"]
    assert past.body["items"][0]["metadata"]["labels"]["app"] == "web"
    assert past.version == version


def test_a_version_from_the_future_is_refused(api: Client) -> None:
    answer = api.get(f"{PODS}?resourceVersion=999999&resourceVersionMatch=NotOlderThan")
    assert (answer.code, answer.reason) == (504, "Timeout")
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_table_shows_what_kubectl_prints(api: Client) -> None:
    api.create_node("n1", labels={"node-role.kubernetes.io/worker": ""})
    api.create_pod("a", nodeName="n1")
    table = api.get(PODS, TABLE).body
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    row = table["rows"][0]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"
    nodes = api.get("/api/v1/nodes?includeObject=Object", TABLE).body["rows"][0]
    assert nodes["cells"][:3] == ["n1", "Unknown", "worker"]
    assert nodes["object"]["kind"] == "Node"


def test_every_resource_has_a_table(api: Client) -> None:
    for path in (
        "/apis/apps/v1/deployments",
        "/api/v1/events",
        "/apis/rbac.authorization.k8s.io/v1/roles",
    ):
        assert api.get(path, TABLE).body["kind"] == "Table"


def test_metadata_alone_can_be_listed(api: Client) -> None:
    api.create_pod("a")
    listed = api.get(PODS, PARTIAL).body
    assert listed["kind"] == "PartialObjectMetadataList"
    assert list(listed["items"][0]) == ["kind", "apiVersion", "metadata"]


def test_a_long_list_arrives_whole(api: Client) -> None:
    filler = "x" * 60_000
    for name in "abcdefghij":
        body = {"metadata": {"name": name}, "data": {"filler": filler}}
        api.post("/api/v1/namespaces/default/configmaps", body)
    answer = api.get("/api/v1/configmaps")
    assert answer.names == list("abcdefghij")
    assert int(answer.headers["Content-Length"]) > 600_000
