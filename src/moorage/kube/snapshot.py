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
from moorage.kube.resources import RESOURCES, Resource, resource_for
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
    lists = [_Reading(client, kind, needs_source) for kind in dict.fromkeys((*ESSENTIAL, *kinds))]
    async with asyncio.TaskGroup() as group:
        for reading in lists:
            group.create_task(reading.run())
    for reading in lists:
        if reading.error is not None and reading.is_needed:
            raise reading.error
    return Snapshot(
        [obj for reading in lists if reading.kind in RESOURCES for obj in reading.objects],
        {reading.kind: reading.objects for reading in lists if reading.kind not in RESOURCES},
        sum(len(reading.reader.skipped) for reading in lists),
        {reading.kind: str(reading.error) for reading in lists if reading.error is not None},
    )


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


class _Reading:
    """One kind on its way."""

    def __init__(
        self, client: KubeClient, kind: str, needs_source: Callable[[ApiObject], bool] | None
    ) -> None:
        self.kind = kind
        self.objects: list[ApiObject] = []
        self.error: MoorageError | None = None
        self._client = client
        self._resource: Resource = resource_for(kind)
        # Who reads a cluster once is gone before memory matters, and wants the answer.
        self.reader = ObjectReader(self._resource, needs_source, interning=False)

    @property
    def is_needed(self) -> bool:
        """Is an error about this kind the end of it all?"""
        hopeless = isinstance(self.error, (UnreachableError, KubeconfigError))
        return hopeless or self.kind in ESSENTIAL

    async def run(self) -> None:
        """List all of them; an error is stored, so that the other kinds are read nevertheless."""
        selector = FIELD_SELECTORS.get(self.kind, "")
        try:
            listing = await self._client.list_all(
                self._resource, self.reader.read, field_selector=selector, limit=PAGE_SIZE
            )
        except KubeconfigError as error:
            self.error = error
        except ApiError as error:
            if not error.is_not_found or self.kind in ESSENTIAL:
                self.error = error
        else:
            self.objects = [one for one in listing.items if not isinstance(one, Malformed)]
