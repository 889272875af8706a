"""Many objects into an API server and out of it again, with many requests in flight."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from moorage.apiserver.resources import BY_PLURAL, ApiResource
from moorage.benchmarks.progress import Phase
from moorage.errors import ApiError, InputError
from moorage.kube.client import KubeClient
from moorage.kube.requests import Request
from moorage.kube.resources import Resource, resource_for
from moorage.model.meta import Json

T = TypeVar("T")

IN_FLIGHT = 64
RUN_LABEL = "bench.moorage.dev/run"
"""What cluster-wide objects of a run are known by when it is time to remove them."""

# Every kind of the API, where a scheduler knows only those it looks at.
_BY_KIND = {(found.group, found.version, found.kind): found for found in BY_PLURAL.values()}
_CONFLICT = 409
_POLL_SECONDS = 0.2


async def in_flight(
    items: Iterable[T], work: Callable[[T], Awaitable[object]], limit: int = IN_FLIGHT
) -> None:
    """Work on all items, so many at once; the first failure ends it."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    workers = [asyncio.create_task(worker()) for _ in range(limit)]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def create_all(
    client: KubeClient,
    bodies: Iterable[Json],
    phase: Phase | None = None,
    *,
    created: Callable[[Json], None] | None = None,
) -> None:
    """Create objects of any kinds; `created` is told of each as the server has stored it."""

    async def create(body: Json) -> None:
        stored = await create_one(client, body)
        if created is not None:
            created(stored)
        if phase is not None:
            phase.advance()

    await in_flight(bodies, create)


async def create_one(client: KubeClient, body: Json) -> Json:
    """Create an object where its kind and namespace say."""
    resource = resource_of(body)
    metadata = body.get("metadata") or {}
    namespace = str(metadata.get("namespace", "default")) if resource.namespaced else ""
    if body["apiVersion"] != resource.api_version:
        body = {**body, "apiVersion": resource.api_version}
    try:
        return await client.create(resource, namespace, body)
    except ApiError as error:
        name = metadata.get("name") or metadata.get("generateName", "")
        raise InputError(f"{resource.kind} {name} cannot be created: {error}") from error


def resource_of(body: Mapping[str, Any]) -> Resource:
    """Where an object belongs, in the API version it is written in."""
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    kind = str(body.get("kind", ""))
    found = _BY_KIND.get((group, version, kind)) or _in_any_version(group, kind)
    if found is None:
        raise InputError(f"{kind} of {body.get('apiVersion')} is not a kind that is known here")
    return Resource(kind, group, found.version, found.plural, found.namespaced)


def _in_any_version(group: str, kind: str) -> ApiResource | None:
    """A kind that is known in another version; what benchmarks write of it reads the same there."""
    for found in BY_PLURAL.values():
        if found.group == group and found.kind == kind:
            return found
    return None


async def create_namespace(client: KubeClient, name: str) -> None:
    """Make a namespace; one that is there already will do."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        await client.create(resource_for("Namespace"), "", body)
    except ApiError as error:
        if error.status != _CONFLICT:
            raise


async def delete_collection(
    client: KubeClient,
    kind: str,
    namespace: str = "",
    *,
    labels: str = "",
    grace_seconds: int | None = None,
) -> None:
    """Delete every object of a kind, or the selected ones."""
    resource = resource_for(kind)
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    query = (("labelSelector", labels),) if labels else ()
    path = resource.collection(namespace)
    await client.send(Request("DELETE", path, query, body=options, timeout=300.0))


async def clean_up(client: KubeClient, namespace: str, run: str, cluster_wide: set[str]) -> None:
    """Remove what a run made: everything in its namespace, and what bears its label."""
    for kind in ("Pod", "ResourceClaim", "Event"):
        try:
            await delete_collection(client, kind, namespace, grace_seconds=0)
        except ApiError as error:
            if not error.is_not_found:  # a server may not have the API at all
                raise
    for kind in sorted(cluster_wide):
        await delete_collection(client, kind, labels=f"{RUN_LABEL}={run}")
    await _delete_namespace(client, namespace)


async def _delete_namespace(client: KubeClient, name: str) -> None:
    """Delete an emptied namespace; without controllers nobody else would finish that."""
    namespaces = resource_for("Namespace")
    await client.delete(namespaces, "", name)
    for _ in range(10):
        try:
            found = await client.get(namespaces, "", name)
        except ApiError as error:
            if error.is_not_found:
                return
            raise
        await asyncio.sleep(_POLL_SECONDS)
    found["spec"] = {"finalizers": []}
    path = namespaces.item("", name, "finalize")
    await client.send(Request("PUT", path, body=found))
