"""What is in deploy/ is whole and agrees with itself, with the source and with kubeadm."""

import itertools
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import fields as struct_fields

from deploy.manifests import CHART, DEPLOY, KUSTOMIZE, ROOT, Json, documents, one, yaml_files
from moorage.config import load_config
from moorage.version import __version__

BASE = KUSTOMIZE / "base"
STATIC_POD = DEPLOY / "static-pod" / "kube-scheduler.yaml"
KUBEADM = Path(__file__).with_name("kubeadm-kube-scheduler.yaml")
KUSTOMIZATIONS = [path for path in yaml_files() if path.name == "kustomization.yaml"]
NAME = "moorage-scheduler"


def shown(path: Path) -> str:
    return str(path.relative_to(DEPLOY))


def container(deployment: Json) -> Json:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", yaml_files(), ids=shown)
def test_every_file_is_yaml(path: Path) -> None:
    assert all(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=shown)
def test_a_kustomization_lists_every_file_beside_it(path: Path) -> None:
    (listed,) = documents(path)
    patches = [patch["path"] for patch in listed.get("patches", ()) if "path" in patch]
    resources = [name for name in listed.get("resources", ()) if name.endswith(".yaml")]
    beside = {other.name for other in path.parent.glob("*.yaml")} - {path.name}
    assert sorted([*resources, *patches]) == sorted(beside)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=shown)
def test_a_kustomization_refers_to_others_that_exist(path: Path) -> None:
    (listed,) = documents(path)
    for name in (*listed.get("resources", ()), *listed.get("components", ())):
        if not name.endswith(".yaml"):
            assert (path.parent / name / "kustomization.yaml").resolve() in KUSTOMIZATIONS, name


def test_every_role_is_bound_to_the_account_that_the_deployment_runs_under() -> None:
    paths = [path for path in yaml_files() if path.is_relative_to(DEPLOY / "rbac")]
    paths += [p for p in yaml_files() if "components" in p.parts and "role" in p.name]
    paths = [path for path in paths if path.name != "kustomization.yaml"]
    found = documents(*paths)
    roles = {(i["kind"], i["metadata"]["name"]) for i in found if "rules" in i}
    bound = {
        (i["roleRef"]["kind"], i["roleRef"]["name"])
        for i in found
        if "roleRef" in i and i["subjects"][0]["name"] == NAME
    }
    there_in_every_cluster = {("Role", "extension-apiserver-authentication-reader")}
    not_for_moorage = {
        ("ClusterRole", "moorage-scheduler-explain-reader"),
        ("ClusterRole", "moorage-scheduler-metrics-reader"),
    }
    assert bound == roles - not_for_moorage | there_in_every_cluster
    deployment = one("Deployment", NAME, BASE / "deployment.yaml")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == NAME


def test_the_lease_of_the_configuration_is_the_one_that_the_role_grants() -> None:
    config = one("ConfigMap", NAME, BASE / "configmap.yaml")["data"]["scheduler.yaml"]
    election = load_config(config.encode(), "scheduler.yaml").leader_election
    role = one("Role", NAME, DEPLOY / "rbac" / "role.yaml")
    assert election.resource_namespace == role["metadata"]["namespace"]
    names = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]
    assert names == [[election.resource_name]]
    assert election.resource_name != "kube-scheduler"
    assert election.leader_elect


@pytest.mark.parametrize("folder", [BASE, KUSTOMIZE / "overlays" / "example"], ids=shown)
def test_the_configuration_is_one_that_moorage_takes(folder: Path) -> None:
    text = one("ConfigMap", NAME, folder / "configmap.yaml")["data"]["scheduler.yaml"]
    names = [p.scheduler_name for p in load_config(text.encode(), "scheduler.yaml").profiles]
    assert names[0] == NAME
    assert "default-scheduler" not in names


def test_the_deployment_mounts_the_file_that_it_reads() -> None:
    deployment = one("Deployment", NAME, BASE / "deployment.yaml")
    config_map = one("ConfigMap", NAME, BASE / "configmap.yaml")
    (mount,) = [m for m in container(deployment)["volumeMounts"] if m["name"] == "config"]
    (file,) = config_map["data"]
    assert container(deployment)["args"] == [f"--config={mount['mountPath']}/{file}"]


def test_the_deployment_meets_the_restricted_pod_security_standard() -> None:
    pod = one("Deployment", NAME, BASE / "deployment.yaml")["spec"]["template"]["spec"]
    (only,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == CONFINED
    assert {"configMap", "emptyDir"} == {kind for v in pod["volumes"] for kind in v} - {"name"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


def test_all_probes_speak_https_to_the_port_that_is_served() -> None:
    only = container(one("Deployment", NAME, BASE / "deployment.yaml"))
    (port,) = only["ports"]
    assert port["containerPort"] == 10259
    asked = {
        probe: (only[probe]["httpGet"]["path"], only[probe]["httpGet"]["scheme"])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert asked == {
        "startupProbe": ("/livez", "HTTPS"),
        "livenessProbe": ("/livez", "HTTPS"),
        "readinessProbe": ("/readyz", "HTTPS"),
    }
    assert {only[probe]["httpGet"]["port"] for probe in asked} == {port["name"]}
    service = one("Service", "moorage-scheduler-metrics", BASE / "service.yaml")
    assert [p["targetPort"] for p in service["spec"]["ports"]] == [port["name"]]


def test_whatever_selects_the_pods_selects_them_by_their_labels() -> None:
    deployment = one("Deployment", NAME, BASE / "deployment.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    budget = one("PodDisruptionBudget", NAME, BASE / "pod-disruption-budget.yaml")
    service = one("Service", "moorage-scheduler-metrics", BASE / "service.yaml")
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    assert [c["labelSelector"]["matchLabels"] for c in spread] == [labels]


# ---- the static pod ----


def differences(left: object, right: object, path: str = "") -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from differences(left.get(key), right.get(key), f"{path}/{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one_, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one_, other, f"{path}/{number}")
    elif left != right:
        yield f"{path}: {left!r} -> {right!r}"


CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""What every container of Moorage has, whoever it runs as."""


def without_temporary_files(pod: Json) -> Json:
    """The pod without the volume for /tmp, which kubeadm's has not: it may write anywhere."""
    (only,) = pod["spec"]["containers"]
    assert only["volumeMounts"].pop() == {"mountPath": "/tmp", "name": "tmp"}
    volume = pod["spec"]["volumes"].pop()
    assert volume == {"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}, "name": "tmp"}
    return pod


def test_the_static_pod_is_kubeadms_but_for_image_command_and_confinement() -> None:
    (ours,) = documents(STATIC_POD)
    (theirs,) = documents(KUBEADM)
    context = {**CONFINED, "runAsGroup": 0, "runAsUser": 0}
    assert list(differences(theirs, without_temporary_files(ours))) == [
        "/spec/containers/0/command/0: 'kube-scheduler' -> 'moorage-scheduler'",
        f"/spec/containers/0/image: 'kube-scheduler:v1.37.1' -> 'moorage:{__version__}'",
        f"/spec/containers/0/securityContext: None -> {context}",
    ]
    assert ours["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def patched(pod: Json, folder: str) -> Json:
    """A manifest of kubeadm's with a JSON patch of ours."""
    path = DEPLOY / "static-pod" / folder / "kube-scheduler+json.yaml"
    for step in yaml.safe_load(path.read_text()):
        *way, last = step["path"].strip("/").split("/")
        at: Any = pod
        for part in way:
            at = at[int(part) if part.isdigit() else part]
        key = int(last) if last.isdigit() else last
        if step["op"] == "test":
            assert at[key] == step["value"]
        elif key == "-":
            at.append(step["value"])
        else:
            at[key] = step["value"]
    return pod


def test_kubeadms_patch_makes_the_static_pod() -> None:
    (pod,) = documents(KUBEADM)
    (wanted,) = documents(STATIC_POD)
    assert patched(pod, "patches") == wanted


def test_the_user_that_kubeadm_chose_for_a_rootless_control_plane_stays() -> None:
    (pod,) = documents(KUBEADM)
    # What kubeadm adds with the gate RootlessControlPlane (runKubeSchedulerAsNonRoot).
    pod["spec"]["securityContext"] |= {"runAsUser": 998, "runAsGroup": 998}
    pod["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    made = patched(pod, "patches-rootless")
    assert made["spec"]["containers"][0]["securityContext"] == CONFINED
    assert made["spec"]["securityContext"]["runAsUser"] == 998
    (wanted,) = documents(STATIC_POD)
    wanted["spec"]["containers"][0]["securityContext"] = CONFINED
    wanted["spec"]["securityContext"] |= {"runAsUser": 998, "runAsGroup": 998}
    assert made == wanted


def test_the_chart_confines_its_container_as_the_base_does() -> None:
    text = (CHART / "templates" / "deployment.yaml").read_text()
    base = (BASE / "deployment.yaml").read_text()
    for block in ("      securityContext:\n", "          securityContext:\n"):
        inner = block.index("s") * " " + "  "

        def lines(manifest: str, block: str = block, inner: str = inner) -> list[str]:
            rest = manifest.partition("\n" + block)[2].splitlines()
            return list(itertools.takewhile(lambda line: line.startswith(inner), rest))

        assert lines(text) == lines(base) != []


# ---- versions, chart and image ----


def test_every_manifest_names_the_image_of_this_version() -> None:
    named = {
        shown(path): found
        for path in yaml_files()
        if (
            found := re.findall(
                r"^\s*(?:- )?(?:image|value): (moorage:\S+)", path.read_text(), re.M
            )
        )
    }
    assert named == {
        "kustomize/base/deployment.yaml": [f"moorage:{__version__}"],
        "static-pod/kube-scheduler.yaml": [f"moorage:{__version__}"],
        "static-pod/patches/kube-scheduler+json.yaml": [f"moorage:{__version__}"],
        "static-pod/patches-rootless/kube-scheduler+json.yaml": [f"moorage:{__version__}"],
    }
    (chart,) = documents(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert f"moorage:{__version__}" in (DEPLOY / "Containerfile").read_text()


def test_the_charts_schema_knows_every_value_and_no_other() -> None:
    (values,) = documents(CHART / "values.yaml")
    schema = json.loads((CHART / "values.schema.json").read_text())

    def check(value: Json, node: Json, path: str) -> None:
        assert set(value) == set(node["properties"]) - {"global"}, path
        for key, inner in value.items():
            properties = node["properties"][key]
            if isinstance(inner, dict) and inner and "properties" in properties:
                check(inner, properties, f"{path}.{key}")

    check(values, schema, "values")


def test_every_value_of_the_chart_is_used() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    (values,) = documents(CHART / "values.yaml")
    for key in values:
        assert f".Values.{key}" in templates, key


def test_the_chart_takes_every_field_of_the_configuration() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    fields = set(schema["properties"]["config"]["properties"])
    text = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = load_config(json.dumps(text).encode(), "scheduler.yaml")
    names = {field.encode_name for field in struct_fields(config)}
    assert names <= fields
    assert fields - names == {"apiVersion", "kind"} - names


def test_the_image_is_built_from_files_that_exist_and_runs_as_the_deployments_user() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    copied = [shlex.split(rest)[:-1] for word, rest in steps if word == "COPY"]
    for source in (name for names in copied for name in names if "--from=build" not in names):
        assert (ROOT / source).exists(), source
    pod = one("Deployment", NAME, BASE / "deployment.yaml")["spec"]["template"]["spec"]
    user = pod["securityContext"]
    assert [rest for word, rest in steps if word == "USER"] == [
        f"{user['runAsUser']}:{user['runAsGroup']}"
    ]
    assert [rest for word, rest in steps if word == "FROM"] == ["${PYTHON} AS build", "${PYTHON}"]
    pips = [rest for word, rest in steps if word == "RUN" and " pip " in rest]
    assert pips
    assert all("--require-hashes" in pip or "--no-index" in pip for pip in pips)
    commands = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (command,) = [json.loads(rest) for word, rest in steps if word == "CMD"]
    assert command[0] in commands
    assert container(one("Deployment", NAME, BASE / "deployment.yaml"))["command"] == command
