"""The official Python client, unmodified, against the embedded API server."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.serving import Serving, pod, served
from moorage.apiserver import ApiServer

kubernetes: Any = importlib.import_module("kubernetes")  # `make check` runs without it


@pytest.fixture
def serving() -> Iterator[Serving]:
    with served(lambda: ApiServer(seed=1)) as (running, _):
        yield running


@pytest.fixture
def core(serving: Serving, tmp_path: Path) -> Iterator[Any]:
    serving.server.write_kubeconfig(tmp_path / "kubeconfig")
    client = kubernetes.config.new_client_from_config(str(tmp_path / "kubeconfig"))
    with client:
        yield kubernetes.client.CoreV1Api(client)


def test_pods_from_creation_to_deletion(core: Any) -> None:
    created = core.create_namespaced_pod("default", pod("a", metadata={"labels": {"x": "y"}}))
    assert created.status.phase == "Pending"
    assert created.metadata.creation_timestamp.tzinfo is not None
    binding = kubernetes.client.V1Binding(
        metadata=kubernetes.client.V1ObjectMeta(name="a"),
        target=kubernetes.client.V1ObjectReference(kind="Node", name="n1"),
    )
    core.create_namespaced_pod_binding("a", "default", binding, _preload_content=False)
    assert core.read_namespaced_pod("a", "default").spec.node_name == "n1"
    patched = core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"x": "z"}}})
    assert patched.metadata.labels["x"] == "z"
    assert len(core.list_pod_for_all_namespaces(label_selector="x=z").items) == 1
    options = kubernetes.client.V1DeleteOptions(grace_period_seconds=0)
    core.delete_namespaced_pod("a", "default", body=options)
    with pytest.raises(kubernetes.client.ApiException) as caught:
        core.read_namespaced_pod("a", "default")
    assert caught.value.status == 404


def test_watch_and_paging(core: Any) -> None:
    for name in "abc":
        core.create_namespaced_pod("default", pod(name))
    page = core.list_namespaced_pod("default", limit=2)
    rest = core.list_namespaced_pod("default", limit=2, _continue=page.metadata._continue)
    assert [item.metadata.name for item in (*page.items, *rest.items)] == ["a", "b", "c"]
    core.create_namespaced_pod("default", pod("d"))
    watch = kubernetes.watch.Watch()
    events = watch.stream(
        core.list_namespaced_pod,
        "default",
        resource_version=page.metadata.resource_version,
        timeout_seconds=20,
    )
    event = next(iter(events))
    watch.stop()
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "d")


def test_conflicts_and_leases(core: Any) -> None:
    coordination = kubernetes.client.CoordinationV1Api(core.api_client)
    lease = {"metadata": {"name": "x"}, "spec": {"holderIdentity": "me"}}
    first = coordination.create_namespaced_lease("default", lease)
    first.spec.holder_identity = "you"
    coordination.replace_namespaced_lease("x", "default", first)
    with pytest.raises(kubernetes.client.ApiException) as caught:
        coordination.replace_namespaced_lease("x", "default", first)
    assert caught.value.status == 409
