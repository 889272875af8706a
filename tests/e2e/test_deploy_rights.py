"""The roles in deploy/rbac are just enough: Moorage does its work with them, and not without."""

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import yaml

from deploy.manifests import DEPLOY, KUSTOMIZE, Json, Right, rights
from e2e.binaries import Binaries
from e2e.client import Access, Api
from e2e.cluster import ControlPlane, empty, write_kubeconfig
from e2e.deployment import (
    BASE,
    NAME,
    NAMESPACE,
    USER,
    Deployed,
    Kubectl,
    RefusedError,
    api_object,
    by_name,
    stage,
)
from e2e.scenarios.devices import claim_allocated
from e2e.scenarios.preemption import immediate_victims
from e2e.scenarios.volumes import chosen_with_the_node
from e2e.schedulers import MOORAGE, Scheduler
from e2e.storage import add_volume, claim, claims, local_volume, storage_class
from e2e.trial import Trial
from moorage.controlplane.processes import free_port, wait_until_ready

# Rights that nothing below makes use of, each with the reason that it is there nevertheless.
_NOT_SHOWN = {
    Right("resource.k8s.io", "resourceclaims", "create"): "a pod's extended resource from devices",
    Right("resource.k8s.io", "resourceclaims", "delete"): "the same, after a failure",
    Right("resource.k8s.io", "resourceclaims/binding", "patch"): "asked by the API server itself",
    Right(
        "resource.k8s.io", "resourceclaims", "get"
    ): "a claim that changed meanwhile is read again",
    Right("events.k8s.io", "events", "patch"): "an event that happens again and again",
}


@pytest.fixture(scope="module")
def kubectl(binaries: Binaries, server: ControlPlane) -> Kubectl:
    return Kubectl(binaries.kubectl, server.admin_kubeconfig)


@pytest.fixture(scope="module")
def rights_given(kubectl: Kubectl) -> None:
    kubectl("apply", "-k", str(DEPLOY / "rbac"))


@pytest.fixture(scope="module")
def deployed(
    server: ControlPlane,
    kubectl: Kubectl,
    scheduler: Callable[[str], Scheduler],
    rights_given: None,
) -> Iterator[Deployed]:
    with closing(Api(server.admin)) as api:
        empty(api)
    token = kubectl("create", "token", NAME, f"--namespace={NAMESPACE}").strip()
    access = Access(server.admin.server, token, server.admin.ca_file)
    kubeconfig = write_kubeconfig(server.folder / "deployed.kubeconfig", access)
    config_map = by_name(kubectl.built(BASE))["ConfigMap", NAMESPACE, NAME]
    config = yaml.safe_load(config_map["data"]["scheduler.yaml"])
    config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    file = server.folder / "deployed.config.yaml"
    file.write_text(yaml.safe_dump(config))
    port = free_port()
    flags = [
        f"--config={file}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--v=4",
    ]
    process = scheduler(MOORAGE).run(flags, server.folder / "deployed.moorage.log")
    try:
        wait_until_ready(process, lambda: _listens(port), 60)
        yield Deployed(server, process, port)
    finally:
        process.stop()


@pytest.fixture(scope="module")
def worked(deployed: Deployed) -> Deployed:
    """Moorage after it has bound and evicted pods and chosen volumes, nodes and devices."""
    with stage(deployed, "deploy-preemption") as trial:
        seen = immediate_victims(trial)
        assert any("Preempted" in line for line in seen["victim's events"])
        assert any("Scheduled" in line for line in trial.event_lines("preemptor"))
    with stage(deployed, "deploy-volumes") as trial:
        assert chosen_with_the_node(trial)["volume"] == "large"
    with stage(deployed, "deploy-provisioning") as trial:
        trial.add(storage_class("made-on-demand", provisioner="csi.example.com"))
        trial.add_node("n1")
        trial.add(claim("data", "made-on-demand"))
        trial.add_pod("first", volumes=claims("data"))
        trial.wait("the claim's node", lambda: _chosen_node(trial, "data"))
    with stage(deployed, "deploy-devices") as trial:
        assert claim_allocated(trial)["first"]
    return deployed


@pytest.fixture(scope="module")
def scraped(deployed: Deployed, kubectl: Kubectl) -> dict[str, int]:
    """What /metrics answers Prometheus, and what it answers the scheduler itself."""
    namespace = api_object("v1", "Namespace", "monitoring")
    account = api_object("v1", "ServiceAccount", "prometheus-k8s", namespace="monitoring")
    kubectl("apply", "-f", "-", given=yaml.safe_dump_all([namespace, account]))
    component = KUSTOMIZE / "components" / "service-monitor" / "cluster-role-binding.yaml"
    kubectl("apply", "-f", str(component))
    accounts = {"prometheus-k8s": "monitoring", NAME: NAMESPACE}
    tokens = {
        name: kubectl("create", "token", name, f"--namespace={where}").strip()
        for name, where in accounts.items()
    }
    return {name: _scraped(deployed.port, token) for name, token in tokens.items()}


def test_its_roles_grant_all_that_moorage_does(worked: Deployed) -> None:
    assert worked.refused() == []
    assert "forbidden" not in worked.process.log.read_text()


def test_it_holds_a_lease_of_its_own_and_tells_so(worked: Deployed) -> None:
    with closing(Api(worked.server.admin)) as api:
        lease = api.get("Lease", NAME, NAMESPACE)
        told = [e["note"] for e in api.list("Event", NAMESPACE) if e["regarding"]["name"] == NAME]
    assert f"{lease['spec']['holderIdentity']} became leader" in told


def test_prometheus_may_read_the_metrics_and_others_may_not(scraped: dict[str, int]) -> None:
    assert scraped == {"prometheus-k8s": 200, NAME: 403}


def test_its_roles_grant_nothing_that_moorage_does_not_do(
    worked: Deployed, scraped: dict[str, int], kubectl: Kubectl
) -> None:
    roles = [item for item in by_name(kubectl.built(DEPLOY / "rbac")).values() if "rules" in item]
    granted = {r._replace(name="") for role in roles for r in rights(role["rules"])}
    used = {right for right, _ in worked.asked()}
    # A watch is in the audit log only when it has ended; tests/deploy compares what is watched.
    unused = {r for r in granted - used if r.verb not in ("list", "watch")}
    assert unused <= set(_NOT_SHOWN)


@pytest.mark.parametrize(
    ("verb", "group", "resource", "namespace", "name", "allowed"),
    [
        ("create", "coordination.k8s.io", "leases", NAMESPACE, "", True),
        ("update", "coordination.k8s.io", "leases", NAMESPACE, NAME, True),
        ("update", "coordination.k8s.io", "leases", NAMESPACE, "kube-scheduler", False),
        ("create", "coordination.k8s.io", "leases", "default", "", False),
        ("get", "", "configmaps", NAMESPACE, "extension-apiserver-authentication", True),
        ("get", "", "configmaps", NAMESPACE, NAME, False),
        ("create", "authentication.k8s.io", "tokenreviews", "", "", True),
        ("create", "authorization.k8s.io", "subjectaccessreviews", "", "", True),
        ("create", "", "events", NAMESPACE, "", True),
        ("create", "", "events", "default", "", False),
        ("get", "", "secrets", NAMESPACE, "", False),
        ("patch", "", "nodes", "", "", False),
        ("create", "", "pods", "default", "", False),
        ("list", "scheduling.k8s.io", "podgroups", "", "", False),
    ],
)
def test_the_account_may_do_its_work_and_no_more(
    server: ControlPlane,
    rights_given: None,
    verb: str,
    group: str,
    resource: str,
    namespace: str,
    name: str,
    allowed: bool,
) -> None:
    asked = {"verb": verb, "group": group, "resource": resource}
    asked |= {"namespace": namespace, "name": name}
    review = api_object("authorization.k8s.io/v1", "SubjectAccessReview", "")
    review["spec"] = {"user": USER, "resourceAttributes": asked}
    with closing(Api(server.admin)) as api:
        answer = api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is allowed


def local_volume_chosen(trial: Trial) -> Json:
    """A pod that waits for the volume which the scheduler picks with the node."""
    trial.add(storage_class("local"))
    trial.add_node("n1")
    add_volume(trial, local_volume("disk", "n1", "local"))
    trial.add(claim("data", "local"))
    trial.place("first", volumes=claims("data"))
    return {}


@pytest.mark.parametrize(
    ("resource", "verb", "scenario"),
    [
        ("pods/binding", "create", immediate_victims),
        ("pods", "delete", immediate_victims),
        ("persistentvolumes", "patch", local_volume_chosen),
        ("resourceclaims/binding", "patch", claim_allocated),
    ],
)
def test_without_one_of_its_rights_moorage_fails_and_says_so(
    deployed: Deployed,
    kubectl: Kubectl,
    resource: str,
    verb: str,
    scenario: Callable[[Trial], Json],
) -> None:
    _take_away(kubectl, resource, verb)
    try:
        with stage(deployed, f"deploy-without-{resource}".replace("/", "-")) as trial:
            with pytest.raises(RefusedError):
                scenario(trial)
            refused = {(right.resource, right.verb) for right in trial.refused_rights()}
    finally:
        kubectl("apply", "-k", str(DEPLOY / "rbac"))
    # That subresource is asked about by the API server itself when the claim's status is written.
    asked = "resourceclaims/status" if resource == "resourceclaims/binding" else resource
    assert refused == {(asked, verb)}
    assert "forbidden" in deployed.process.log.read_text()


def _chosen_node(trial: Trial, name: str) -> str | None:
    """Which node the scheduler has told the provisioner to make the claim's volume for."""
    found = trial.api.get("PersistentVolumeClaim", name, trial.namespace)["metadata"]
    node: str | None = found.get("annotations", {}).get("volume.kubernetes.io/selected-node")
    return node


def _take_away(kubectl: Kubectl, resource: str, verb: str) -> None:
    role = json.loads(kubectl("get", "clusterrole", NAME, "-o", "json"))
    kept = []
    for rule in role["rules"]:
        others = [other for other in rule["resources"] if other != resource]
        verbs = [other for other in rule["verbs"] if other != verb]
        if resource not in rule["resources"] or verb not in rule["verbs"]:
            kept.append(rule)
            continue
        if others:
            kept.append(rule | {"resources": others})
        if verbs:
            kept.append(rule | {"resources": [resource], "verbs": verbs})
    change = json.dumps({"rules": kept})
    kubectl("patch", "clusterrole", NAME, "--type=merge", "-p", change)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _scraped(port: int, token: str) -> int:
    """The code that /metrics answers this bearer with."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # self-signed
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=15)
    with closing(connection):
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
