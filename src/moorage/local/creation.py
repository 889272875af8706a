"""Creates the objects of files in a cluster: in order, in namespaces, with owners that are there.

Owns what the API takes only in a second step. Knows no scheduler.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from moorage.errors import ApiError, InputError
from moorage.kube.client import KubeClient
from moorage.kube.requests import MERGE
from moorage.kube.resources import RESOURCES, Resource, resource_for
from moorage.model.custom import CUSTOM_RESOURCE_DEFINITION, Definitions

Document = Mapping[str, Any]

_FIRST = ("Namespace", "PriorityClass", "StorageClass", "Node")
_LAST = {"PersistentVolume": 1, "ReplicaSet": 1, "Pod": 2, "ResourceClaim": 3}
# Their status is what tests and samples are about; the API takes it only in a second step.
_WITH_STATUS = ("PodDisruptionBudget", "PersistentVolume", "PersistentVolumeClaim", "ResourceClaim")
STORAGE_CLASS: Document = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "simulated.moorage.io",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""The default class of a cluster that is given none."""
_CONFLICT = 409
_NAMESPACE = resource_for("Namespace")


class _Creation(NamedTuple):
    """An object to be made."""

    document: Document
    where: str
    resource: Resource
    namespace: str
    """Empty for an object of the whole cluster."""

    @property
    def rank(self) -> int:
        """What others need comes first, pods come last."""
        kind = str(self.document["kind"])
        return _FIRST.index(kind) - len(_FIRST) if kind in _FIRST else _LAST.get(kind, 0)


async def apply_documents(
    client: KubeClient,
    documents: Sequence[tuple[Document, str]],
    looked_up: Collection[str] = (),
) -> dict[str, int]:
    """Create the objects; returns how many of each kind the scheduler has no use for.

    `looked_up` are the other kinds that plugins use. CustomResourceDefinitions are there already.
    """
    known: list[_Creation] = []
    skipped: dict[str, int] = {}
    definitions = Definitions(document for document, _ in documents)
    for document, where in documents:
        kind = str(document.get("kind", ""))
        if kind in RESOURCES:
            resource = RESOURCES[kind]
            given = _metadata(document).get("namespace") or "default"
            namespace = str(given) if resource.namespaced else ""
            known.append(_Creation(document, where, resource, namespace))
            continue
        name, placed = definitions.place(dict(document))
        if str(name) in looked_up or definitions.define(placed):
            namespace = placed["metadata"].get("namespace", "")
            known.append(_Creation(placed, where, resource_for(str(name)), namespace))
        elif kind != CUSTOM_RESOURCE_DEFINITION:
            skipped[kind] = skipped.get(kind, 0) + 1
    # Manifests often leave namespaces out; they are made so that the rest can be.
    listed = {_metadata(one.document).get("name") for one in known if one.resource is _NAMESPACE}
    for missing in sorted({one.namespace for one in known} - listed - {"", "default"}):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": missing}}
        await _create_unless_there(client, _NAMESPACE, body)
    uids: dict[str, str] = {}
    for one in sorted(known, key=lambda one: one.rank):
        await _create(client, one, uids)
    return skipped


async def define_kinds(client: KubeClient, documents: Iterable[tuple[Document, str]]) -> None:
    """Create the CustomResourceDefinitions among the objects; those that exist stay."""
    resource = resource_for("customresourcedefinitions.v1.apiextensions.k8s.io")
    for document, where in documents:
        if document.get("kind") == CUSTOM_RESOURCE_DEFINITION:
            try:
                await _create_unless_there(client, resource, document)
            except ApiError as error:
                raise InputError(f"{where}: {CUSTOM_RESOURCE_DEFINITION}: {error}") from error


async def create_missing(client: KubeClient, documents: Iterable[Document]) -> None:
    """Create objects of the whole cluster; those that are there already stay."""
    for document in documents:
        await _create_unless_there(client, RESOURCES[document["kind"]], document)


async def _create_unless_there(client: KubeClient, resource: Resource, body: Document) -> None:
    try:
        await client.create(resource, "", body)
    except ApiError as error:
        if error.status != _CONFLICT:
            raise


async def _create(client: KubeClient, one: _Creation, uids: dict[str, str]) -> None:
    """Create an object; `uids` has the new uids of those before it, by their uids in the files."""
    document, where, resource, namespace = one
    kind = str(document["kind"])
    old = _metadata(document).get("uid")
    try:
        made = await client.create(resource, namespace, _pointing_here(document, uids))
        if old:
            uids[str(old)] = made["metadata"]["uid"]
        status = _status(document, uids)
        if status:
            name, news = made["metadata"]["name"], {"status": status}
            await client.patch(
                resource, namespace, name, news, content_type=MERGE, subresource="status"
            )
    except ApiError as error:
        name = _metadata(document).get("name", "")
        raise InputError(f"{where}: {kind} {name}: {error}") from error


def _pointing_here(document: Document, uids: Mapping[str, str]) -> Document:
    """The object with references to owners, or to a volume's claim, as they were created here."""
    owners = _metadata(document).get("ownerReferences")
    if uids and isinstance(owners, list):
        metadata = {**_metadata(document), "ownerReferences": _anew(owners, uids)}
        document = {**document, "metadata": metadata}
    claim = _part(document, "spec").get("claimRef")
    if document["kind"] == "PersistentVolume" and isinstance(claim, Mapping):
        (claim,) = _anew([claim], uids)
        document = {**document, "spec": {**document["spec"], "claimRef": claim}}
    return document


def _status(document: Document, uids: Mapping[str, str]) -> Mapping[str, Any]:
    """What the API takes only in a second step; of pods, which claims were made for them."""
    kind, status = document["kind"], _part(document, "status")
    if kind == "Pod":
        return {name: status[name] for name in ("resourceClaimStatuses",) if name in status}
    if kind == "ResourceClaim" and isinstance(status.get("reservedFor"), list):
        return {**status, "reservedFor": _anew(status["reservedFor"], uids)}
    return status if kind in _WITH_STATUS else {}


def _anew(references: Iterable[Any], uids: Mapping[str, str]) -> list[Any]:
    """References by the uids that the objects were given here."""
    return [
        {**ref, "uid": uids.get(str(ref.get("uid")), ref.get("uid"))}
        for ref in references
        if isinstance(ref, Mapping)
    ]


def _metadata(document: Document) -> Mapping[str, Any]:
    return _part(document, "metadata")


def _part(document: Document, name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
