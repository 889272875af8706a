"""A cluster read once: everything that plugins look up, listed side by side; nothing is followed.

Owns which lists are read, and what becomes of a kind that cannot be had: without nodes and pods
there is nothing to say, without another kind there is. Asks only for lists; puts nothing together
(`simulator.world` does) and decides nothing.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from moorage.errors import ApiError, KubeconfigError, MoorageError, UnreachableError
from moorage.kube import deep_json, requests
from moorage.kube.client import KubeClient
from moorage.kube.decoding import Malformed, ObjectReader
from moorage.kube.informers import FIELD_SELECTORS
from moorage.kube.resources import RESOURCES, resource_for
from moorage.model.meta import ApiObject

ESSENTIAL = ("Node", "Pod")
PAGE_SIZE = 1000
"""Twice what informers ask for: nobody else waits for this client."""


class Snapshot(msgspec.Struct, frozen=True):
    """The objects as they were when they were listed, kind by kind and not at one moment."""

    objects: Sequence[ApiObject]
    custom: Mapping[str, Sequence[ApiObject]]
    """Objects of kinds that the model has no type for, by the names that plugins use."""
    malformed: int
    """How many objects could not be read; each was logged with its name."""
    unread: dict[str, str]
    """Kinds that could not be listed, with the server's reason."""


async def read_cluster(
    client: KubeClient,
    kinds: Iterable[str],
    needs_source: Callable[[ApiObject], bool] | None = None,
) -> Snapshot:
    """List all objects of some kinds (`Pod`) and custom resources (`foos.v1.example.com`).

    A kind that the server does not have has no objects. `ApiError` if there is no list of nodes or
    of pods, or no server.
    """
    lists = {kind: _Reading() for kind in (*ESSENTIAL, *kinds)}
    async with asyncio.TaskGroup() as group:
        for kind, reading in lists.items():
            group.create_task(_read(client, kind, reading, needs_source))
    for kind, reading in lists.items():
        hopeless = isinstance(reading.error, (UnreachableError, KubeconfigError))
        if reading.error is not None and (hopeless or kind in ESSENTIAL):
            raise reading.error
    return Snapshot(
        [obj for kind, reading in lists.items() if kind in RESOURCES for obj in reading.objects],
        {kind: reading.objects for kind, reading in lists.items() if kind not in RESOURCES},
        sum(reading.malformed for reading in lists.values()),
        {kind: str(reading.error) for kind, reading in lists.items() if reading.error is not None},
    )


class _Reading(msgspec.Struct):
    """One kind on its way."""

    objects: list[ApiObject] = []
    malformed: int = 0
    error: MoorageError | None = None


async def _read(
    client: KubeClient,
    kind: str,
    into: _Reading,
    needs_source: Callable[[ApiObject], bool] | None,
) -> None:
    """List all of a kind; an error is stored, so that the others are read nevertheless."""
    # Who reads a cluster once is gone before memory matters, and wants the answer.
    reader = ObjectReader(resource_for(kind), needs_source, interning=False)
    selector = FIELD_SELECTORS.get(kind, "")
    try:
        listing = await client.list_all(
            resource_for(kind), reader.read, field_selector=selector, limit=PAGE_SIZE
        )
    except KubeconfigError as error:
        into.error = error
    except ApiError as error:
        if not error.is_not_found or kind in ESSENTIAL:
            into.error = error
    else:
        into.objects = [one for one in listing.items if not isinstance(one, Malformed)]
        into.malformed = len(reader.skipped)


async def pod_phase(client: KubeClient, namespace: str, name: str) -> str | None:
    """How far a pod is, whatever its phase; None if there is none of that name.

    Asked for as a list, so that whoever may read the cluster may ask this.
    """
    selector = f"metadata.name={name}"
    page = await client.page(requests.list_(RESOURCES["Pod"], namespace, field_selector=selector))
    if not page.items:
        return None
    try:
        return msgspec.convert(deep_json.decode(page.items[0]), _Phased).status.phase
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""  # what is wrong with it is logged when it is read in full


class _Phase(msgspec.Struct):
    phase: str = ""


class _Phased(msgspec.Struct):
    status: _Phase = msgspec.field(default_factory=_Phase)
