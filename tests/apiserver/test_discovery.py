"""Discovery, OpenAPI, version and health."""

from apiserver.serving import Client
from moorage.apiserver.resources import RESOURCES
from moorage.version import KUBERNETES_VERSION

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def test_every_resource_is_discovered_and_can_be_listed(api: Client) -> None:
    for row in RESOURCES:
        root = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
        listed = {entry["name"]: entry for entry in api.get(root).body["resources"]}
        entry = listed[row.plural]
        assert (entry["kind"], entry["namespaced"]) == (row.kind, row.namespaced)
        assert {f"{row.plural}/{sub}" for sub in row.subresources} <= set(listed)
        if not row.virtual:
            answer = api.get(f"{root}/{row.plural}")
            assert (answer.code, answer.body["kind"]) == (200, f"{row.kind}List")


def test_groups_name_their_preferred_version(api: Client) -> None:
    groups = {group["name"]: group for group in api.get("/apis").body["groups"]}
    assert groups["scheduling.k8s.io"]["preferredVersion"]["version"] == "v1"
    assert api.get("/apis/apps").body["preferredVersion"]["groupVersion"] == "apps/v1"
    assert api.get("/api").body["versions"] == ["v1"]
    assert api.get("/apis/nothing.example").code == 404


def test_aggregated_discovery_holds_everything(api: Client) -> None:
    answer = api.get("/apis", AGGREGATED)
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    names = [item["metadata"]["name"] for item in answer.body["items"]]
    assert "coordination.k8s.io" in names
    core = api.get("/api", AGGREGATED).body["items"][0]["versions"][0]["resources"]
    pods = next(entry for entry in core if entry["resource"] == "pods")
    assert pods["responseKind"]["kind"] == "Pod"
    assert {sub["subresource"] for sub in pods["subresources"]} >= {"status", "binding"}


def test_openapi_lets_kubectl_leave_validation_to_the_server(api: Client) -> None:
    paths = api.get("/openapi/v3").body["paths"]
    document = api.get(paths["api/v1"]["serverRelativeURL"]).body
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert "io.k8s.api.core.v1.Pod" in document["components"]["schemas"]
    assert api.get("/openapi/v2").body["swagger"] == "2.0"
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = api.get("/openapi/v2", accept=protobuf)
    assert answer.code == 200
    assert answer.headers["Content-Type"] == protobuf.replace("@", "."), "clients refuse an @ here"
    assert api.get("/openapi/v3/apis/none/v1").code == 404


def test_version_and_health(api: Client) -> None:
    assert api.get("/version").body["gitVersion"] == KUBERNETES_VERSION
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        assert api.get(path).body == {"text": "ok"}
    assert api.get("/nowhere").code == 404
