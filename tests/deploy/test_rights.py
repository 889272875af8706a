"""Moorage's roles grant what its source asks of the API: no right is missing, none is left over."""

from collections import Counter
from pathlib import Path

import pytest

from deploy.api_calls import api_calls
from deploy.manifests import CHART, DEPLOY, KUSTOMIZE, Right, documents, rights, yaml_files
from moorage.config import default_config
from moorage.config.feature_gates import FeatureGates
from moorage.engine.clock import WallClock
from moorage.http.explain_api import ROOT
from moorage.kube.live import build_scheduler, watched_kinds
from moorage.kube.resources import Resource, resource_for
from moorage.model.decode import KINDS
from moorage.simulator.world import full_registry

SOURCE = DEPLOY.parent / "src" / "moorage"
ROLES = [path for path in yaml_files() if path.name.endswith("role.yaml")]
READERS = [DEPLOY / "rbac" / name for name in ("explain-reader.yaml", "metrics-reader.yaml")]
READING = ("get", "list", "watch")
EVERY_GATE = "AllAlpha=true,AllBeta=true"

PLUGIN_VERBS = ("get", "list", "create", "patch", "delete", "watch")

# Calls whose resource is no constant, with what they are called for.
DYNAMIC: dict[str, tuple[tuple[str, str], ...]] = {
    "kube/api_port.py:_merge": (
        ("PersistentVolume", "patch"),
        ("PersistentVolumeClaim", "patch"),
        ("ResourceClaim", "patch"),
        ("ResourceClaim/status", "patch"),
    ),
    # Whoever makes one says what to follow, and is found itself.
    "kube/object_watch.py:follow_object": (),
    # One for every watched kind.
    "kube/reflector.py:_list": (),
    "kube/reflector.py:_watch_request": (),
    # Every kind that plugins look up, for whoever runs `moorage explain`.
    "kube/snapshot.py:_read": (),
    # What plugins of others ask for, who see to the rights themselves (docs/plugins.md).
    **{f"kube/plugin_client.py:{verb}": () for verb in PLUGIN_VERBS},
}
# Asked for by the API server itself when the status of a claim is written.
IMPLIED = Right("resource.k8s.io", "resourceclaims/binding", "patch")


def right(resource: Resource, verb: str, subresource: str = "") -> Right:
    path = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Right(resource.group, path, verb)


def needed_to_watch(gates: str) -> set[Right]:
    parsed = FeatureGates.parse(gates)
    scheduler = build_scheduler(default_config(parsed), full_registry(), parsed, WallClock())
    kinds = watched_kinds(scheduler.profiles, groups=scheduler.groups.enabled)
    return {right(resource_for(kind), verb) for kind in kinds for verb in ("list", "watch")}


def needed_by_calls() -> set[Right]:
    needed = {IMPLIED}
    for call in api_calls(SOURCE / "kube", SOURCE / "http", SOURCE / "app", SOURCE / "cli"):
        if call.resource is not None:
            needed.add(right(call.resource, call.verb, call.subresource))
        else:
            for what, verb in DYNAMIC[call.place]:
                kind, _, subresource = what.partition("/")
                needed.add(right(resource_for(kind), verb, subresource))
    return needed


def granted(*paths: Path) -> set[Right]:
    rules = [rule for item in documents(*paths) for rule in item.get("rules", ())]
    return {found._replace(name="") for found in rights(rules)}


def component(name: str) -> list[Path]:
    return sorted((KUSTOMIZE / "components" / name).glob("*role.yaml"))


def test_every_call_whose_resource_is_not_a_constant_is_declared() -> None:
    calls = api_calls(SOURCE / "kube", SOURCE / "http", SOURCE / "app", SOURCE / "cli")
    assert {call.place for call in calls if call.resource is None} == set(DYNAMIC)


def test_the_cluster_role_lets_moorage_follow_just_what_it_watches_by_default() -> None:
    reads = {r for r in granted(DEPLOY / "rbac" / "cluster-role.yaml") if r.verb in READING}
    # A claim is read afresh before it is changed.
    assert reads - {right(resource_for("ResourceClaim"), "get")} == needed_to_watch("")


@pytest.mark.parametrize(
    ("name", "gate"),
    [("pod-groups", "GenericWorkload")],
)
def test_a_component_adds_just_what_its_gate_makes_moorage_watch(name: str, gate: str) -> None:
    more = needed_to_watch(f"{gate}=true") - needed_to_watch("")
    assert {r for r in granted(*component(name)) if r.verb in READING} == more
    patched = (KUSTOMIZE / "components" / name / "kustomization.yaml").read_text()
    assert f"--feature-gates={gate}=true" in patched


def test_pods_may_be_patched_only_where_annotations_are_switched_on() -> None:
    patching = Right("", "pods", "patch")
    assert patching not in granted(DEPLOY / "rbac" / "cluster-role.yaml")
    assert granted(*component("explain-annotations")) == {patching}
    switch = KUSTOMIZE / "components" / "explain-annotations" / "kustomization.yaml"
    assert "value: --explain-annotations" in switch.read_text()
    template = (CHART / "templates" / "cluster-roles.yaml").read_text()
    switched = template.partition("{{- if .Values.explain.annotations }}")[2]
    assert "-explain-annotations" in switched.partition("{{- end }}")[0]


def test_the_reader_of_explanations_may_read_what_is_served_below_explain_and_nothing_else() -> (
    None
):
    (role,) = documents(DEPLOY / "rbac" / "explain-reader.yaml")
    assert role["rules"] == [{"nonResourceURLs": ["/explain/*"], "verbs": ["get"]}]
    assert ROOT.startswith("/explain/")


def test_the_recorder_may_list_and_watch_what_a_scheduler_reads_and_nothing_else() -> None:
    wanted = {right(resource_for(kind), verb) for kind in KINDS for verb in ("list", "watch")}
    assert granted(DEPLOY / "recorder.yaml") == wanted


def test_all_roles_together_grant_just_the_calls_in_the_source() -> None:
    assert granted(*ROLES) == needed_by_calls() | needed_to_watch(EVERY_GATE)


def test_a_call_that_no_role_allows_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        'async def drain(self, name):\n    await self._client.delete(RESOURCES["Node"], "", name)\n'
    )
    (found,) = api_calls(tmp_path)
    assert found.resource is not None
    assert right(found.resource, found.verb) == Right("", "nodes", "delete")
    assert right(found.resource, found.verb) not in granted(*ROLES)


def test_leases_and_configuration_are_reached_by_name_only() -> None:
    paths = [DEPLOY / "rbac" / "role.yaml", *component("follow-configmap")]
    named = [r for item in documents(*paths) for r in rights(item["rules"])]
    for found in named:
        if found.resource in ("leases", "configmaps") and found.verb != "create":
            assert found.name == "moorage-scheduler", found


@pytest.mark.parametrize(
    "path",
    [*ROLES, *READERS],
    ids=lambda p: str(p.relative_to(DEPLOY)),
)
def test_no_right_is_granted_twice_and_every_list_is_sorted(path: Path) -> None:
    for item in documents(path):
        rules = item.get("rules", [])
        twice = {r: n for r, n in Counter(rights(rules)).items() if n > 1}
        assert twice == {}
        for rule in rules:
            for key, values in rule.items():
                assert values == sorted(set(values)), (key, values)
                assert not {"*", "escalate", "impersonate"} & set(values), (key, values)


@pytest.mark.parametrize("path", ROLES, ids=lambda p: str(p.relative_to(DEPLOY)))
def test_every_rule_is_justified_by_a_comment(path: Path) -> None:
    lines = path.read_text().splitlines()
    firsts = [n for n, line in enumerate(lines) if line.startswith("  - ") and ":" in line]
    # A rule without its own comment belongs to the one before it.
    commented = [n for n in firsts if lines[n - 1].startswith("  #")]
    assert firsts[0] in commented
    assert len(commented) >= len(firsts) / 2


def test_the_chart_carries_the_rules_of_the_manifests() -> None:
    """The rendered chart is compared in the end-to-end tests; here the rules' text is."""
    templates = "".join(path.read_text() for path in sorted((CHART / "templates").glob("*.yaml")))
    for path in yaml_files():
        if path in ROLES or path in READERS:
            rules = path.read_text().partition("rules:\n")[2]
            for line in rules.splitlines():
                if "resourceNames" not in line:
                    assert line in templates, (path, line)
