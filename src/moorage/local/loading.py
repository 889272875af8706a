"""Manifests put into an API server, in an order it accepts."""

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.errors import ApiError, InputError
from moorage.kube.client import KubeClient
from moorage.kube.resources import RESOURCES, resource_for

Document = Mapping[str, Any]

_FIRST = ("Namespace", "PriorityClass", "StorageClass", "Node")
_LAST = ("Pod",)
# Their status is what tests and samples are about; the API takes it only in a second step.
_WITH_STATUS = ("PodDisruptionBudget", "PersistentVolume", "PersistentVolumeClaim", "ResourceClaim")
_CONFLICT = 409


async def apply_documents(
    client: KubeClient, documents: Iterable[tuple[Document, str]]
) -> dict[str, int]:
    """Create the objects; returns how many of each kind the scheduler has no use for."""
    known: list[tuple[Document, str]] = []
    skipped: dict[str, int] = {}
    for document, where in documents:
        kind = str(document.get("kind", ""))
        if kind in RESOURCES:
            known.append((document, where))
        else:
            skipped[kind] = skipped.get(kind, 0) + 1
    await _create_namespaces(client, known)
    for document, where in sorted(known, key=lambda item: _rank(item[0])):
        await _create(client, document, where)
    return skipped


async def _create_namespaces(client: KubeClient, documents: list[tuple[Document, str]]) -> None:
    """Manifests often leave namespaces out; they are made so that the rest can be."""
    named = {
        str(document["metadata"]["namespace"])
        for document, _ in documents
        if isinstance(document.get("metadata"), Mapping) and document["metadata"].get("namespace")
    }
    listed = {
        str(document["metadata"].get("name"))
        for document, _ in documents
        if document.get("kind") == "Namespace" and isinstance(document.get("metadata"), Mapping)
    }
    for name in sorted(named - listed):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await client.create(resource_for("Namespace"), "", body)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise


async def _create(client: KubeClient, document: Document, where: str) -> None:
    kind = str(document["kind"])
    resource = resource_for(kind)
    metadata = document.get("metadata") or {}
    namespace = metadata.get("namespace", "default") if resource.namespaced else ""
    try:
        made = await client.create(resource, namespace, document)
        if kind in _WITH_STATUS and document.get("status"):
            name = made["metadata"]["name"]
            await client.patch(
                resource,
                namespace,
                name,
                {"status": document["status"]},
                content_type="application/merge-patch+json",
                subresource="status",
            )
    except ApiError as error:
        raise InputError(f"{where}: {kind} {metadata.get('name', '')}: {error}") from error


def _rank(document: Document) -> int:
    kind = document.get("kind")
    if kind in _FIRST:
        return _FIRST.index(str(kind)) - len(_FIRST)
    return 1 if kind in _LAST else 0
