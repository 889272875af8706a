"""Every manifest in deploy/ is taken by a real API server, and the chart makes the same objects."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.manifests import DEPLOY, KUSTOMIZE, Json, rights
from e2e.binaries import Binaries
from e2e.cluster import ControlPlane
from e2e.deployment import BASE, NAME, NAMESPACE, Helm, Kubectl, api_object, by_name
from e2e.go_programs import UnavailableError
from e2e.helm_binary import find_or_build_helm

# What Helm says about itself besides the manifests' own label.
_HELMS_OWN = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}
_EVERYTHING_ON = {
    "config": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]},
    "featureGates": {
        "CoordinatedLeaderElection": True,
        "GenericWorkload": True,
    },
    "followConfigMap": True,
    "tlsSecretName": "certificate",
    "extraArgs": ["--v=4"],
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "explain": {
        "page": True,
        "annotations": True,
        "ledgerMemory": "16Mi",
        "ledgerOnDisk": True,
        "readers": [{"kind": "ServiceAccount", "name": "curious", "namespace": "elsewhere"}],
    },
    "metrics": {
        "serviceMonitor": {"create": True, "interval": "15s", "labels": {"release": "prometheus"}},
        "reader": {"serviceAccountName": "prometheus"},
    },
}


@pytest.fixture(scope="module")
def kubectl(binaries: Binaries, server: ControlPlane) -> Kubectl:
    command = Kubectl(binaries.kubectl, server.admin_kubeconfig)
    command("apply", "-f", "-", given=yaml.safe_dump(_service_monitor_definition()))
    command("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com")
    return command


@pytest.fixture(scope="module")
def helm() -> Helm:
    try:
        return Helm(find_or_build_helm())
    except UnavailableError as reason:
        if os.environ.get("MOORAGE_E2E_REQUIRED"):
            raise
        pytest.skip(f"no Helm: {reason}")


# ---- every manifest is taken ----


def test_the_api_server_takes_the_kustomize_base(kubectl: Kubectl) -> None:
    made = kubectl.dry_run(kubectl.built(BASE))
    assert {("Deployment", NAME), ("ConfigMap", NAME), ("PodDisruptionBudget", NAME)} <= made
    assert len(made) == 12


def test_the_api_server_takes_the_example_overlay(kubectl: Kubectl) -> None:
    made = kubectl.dry_run(kubectl.built(KUSTOMIZE / "overlays" / "example"))
    assert {("ServiceMonitor", NAME), ("ClusterRole", f"{NAME}-pod-groups")} <= made


def test_all_components_work_together(kubectl: Kubectl, tmp_path: Path) -> None:
    components = sorted((KUSTOMIZE / "components").iterdir())
    listed = {
        "resources": [os.path.relpath(BASE, tmp_path)],
        "components": [os.path.relpath(component, tmp_path) for component in components],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(listed))
    built = kubectl.built(tmp_path)
    assert kubectl.dry_run(built) > kubectl.dry_run(kubectl.built(BASE))
    pod = by_name(built)["Deployment", NAMESPACE, NAME]["spec"]["template"]["spec"]
    assert sorted(pod["containers"][0]["args"]) == [
        f"--config-from-configmap={NAMESPACE}/{NAME}:scheduler.yaml",
        "--explain-annotations",
        "--explain-page",
        "--feature-gates=CoordinatedLeaderElection=true",
        "--feature-gates=GenericWorkload=true",
    ]
    assert [volume["name"] for volume in pod["volumes"]] == ["tmp"]


def test_the_api_server_takes_the_rights_alone_and_the_static_pod(kubectl: Kubectl) -> None:
    rights_alone = kubectl.dry_run(kubectl.built(DEPLOY / "rbac"))
    assert {kind for kind, _ in rights_alone} == {
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount")
    }
    static_pod = (DEPLOY / "static-pod" / "kube-scheduler.yaml").read_text()
    assert kubectl.dry_run(static_pod) == {("Pod", "kube-scheduler")}


def test_a_misspelt_field_would_be_refused(kubectl: Kubectl) -> None:
    misspelt = kubectl.built(BASE).replace("readOnlyRootFilesystem", "readonlyRootFilesystem")
    run = kubectl.tried("apply", "--dry-run=server", "-f", "-", given=misspelt)
    assert run.returncode == 1
    assert 'unknown field "spec.template.spec.containers[0].securityContext.readonly' in run.stderr


def test_the_pods_may_run_where_the_restricted_pod_security_standard_is_enforced(
    kubectl: Kubectl,
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = api_object("v1", "Namespace", "restricted", labels=labels)
    kubectl("apply", "-f", "-", given=yaml.safe_dump(namespace))
    pod = by_name(kubectl.built(BASE))["Deployment", NAMESPACE, NAME]["spec"]["template"]
    pod |= {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] |= {"name": NAME, "namespace": "restricted"}
    assert kubectl.dry_run(yaml.safe_dump(pod)) == {("Pod", NAME)}
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    run = kubectl.tried("apply", "--dry-run=server", "-f", "-", given=yaml.safe_dump(pod))
    assert "violates PodSecurity" in run.stderr


# ---- the chart ----


def test_the_chart_makes_what_the_kustomize_base_makes(kubectl: Kubectl, helm: Helm) -> None:
    chart = by_name(helm.template(NAME, NAMESPACE))
    base = by_name(kubectl.built(BASE))
    assert sorted(chart) == sorted(base)
    for key, item in base.items():
        assert _plain(chart[key]) == _plain(item), key


def test_the_api_server_takes_the_chart(kubectl: Kubectl, helm: Helm) -> None:
    kubectl("apply", "-f", "-", given=yaml.safe_dump(api_object("v1", "Namespace", "elsewhere")))
    plain = kubectl.dry_run(helm.template("mine", "elsewhere"))
    assert ("Deployment", "mine-moorage") in plain
    assert kubectl.dry_run(helm.template("mine", "elsewhere", _EVERYTHING_ON)) > plain


def test_the_charts_rights_follow_the_lease_and_the_namespace(helm: Helm) -> None:
    lease = {"resourceName": "berth", "resourceNamespace": "leases"}
    values = _EVERYTHING_ON | {"config": {"leaderElection": lease}}
    made = by_name(helm.template("mine", "elsewhere", values))
    role = made["Role", "leases", "mine-moorage"]
    assert {r.name for r in rights(role["rules"]) if r.resource == "leases"} == {"", "berth"}
    (read,) = made["Role", "elsewhere", "mine-moorage-config"]["rules"]
    assert read["resourceNames"] == ["mine-moorage"]
    subjects = [s for item in made.values() for s in item.get("subjects", ())]
    assert {(s["name"], s["namespace"]) for s in subjects} == {
        ("curious", "elsewhere"),
        ("mine-moorage", "elsewhere"),
        ("prometheus", "monitoring"),
    }
    config = yaml.safe_load(
        made["ConfigMap", "elsewhere", "mine-moorage"]["data"]["scheduler.yaml"]
    )
    assert config["leaderElection"] == {"leaderElect": True, **lease}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"config": {"profile": []}}, "additional properties 'profile' not allowed"),
        ({"featureGates": {"GenericWorkload": "yes"}}, "got string, want boolean"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed"),
        ({"explain": {"ledgerMemory": "much"}}, "does not match pattern"),
    ],
)
def test_the_chart_refuses_values_that_mean_nothing(helm: Helm, values: Json, told: str) -> None:
    run = helm.tried("mine", "elsewhere", values)
    assert run.returncode == 1
    assert told in run.stderr


def _plain(value: Any) -> Any:
    """Without the labels that only Helm sets, and configuration as what it says."""
    if isinstance(value, dict):
        return {
            key: yaml.safe_load(part) if key == "scheduler.yaml" else _plain(part)
            for key, part in value.items()
            if key not in _HELMS_OWN
        }
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _service_monitor_definition() -> Json:
    """Just enough of the Prometheus operator for the API server to know the kind."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    body = api_object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "servicemonitors.monitoring.coreos.com",
    )
    names = {"kind": "ServiceMonitor", "plural": "servicemonitors"}
    body["spec"] = {
        "group": "monitoring.coreos.com",
        "names": names,
        "scope": "Namespaced",
        "versions": [version],
    }
    return body
