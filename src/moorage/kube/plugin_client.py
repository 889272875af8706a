"""The API client that plugins get: JSON of any kind, through the scheduler's own client.

So requests are limited, retried and counted as the scheduler's own, and refused while another
instance leads. Keeps nothing; `informers` follow what plugins look up.
"""

from collections.abc import AsyncIterator

import msgspec

from moorage.errors import ApiError
from moorage.framework.api_access import NO_LABELS, ApiClient, Kind, WatchEvent
from moorage.kube import deep_json, requests
from moorage.kube.client import KubeClient
from moorage.kube.decoding import watch_events
from moorage.kube.resources import Resource, resource_for
from moorage.model.custom import CustomObject
from moorage.model.labels import Labels
from moorage.model.meta import Json


def _resource(kind: Kind) -> Resource:
    return resource_for(kind if isinstance(kind, str) else kind.__name__)


class PluginClient(ApiClient):
    """`ApiClient` over a `KubeClient`."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Json:
        """One object."""
        return await self._client.get(_resource(kind), namespace, name)

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> list[Json]:
        """All objects, page by page."""
        resource = _resource(kind)
        listing = await self._client.list_all(
            resource, deep_json.decode, namespace, label_selector=_selector(labels)
        )
        # Members of a list do not repeat what they are, unless they are custom resources.
        common = {"apiVersion": resource.api_version}
        if resource.struct is not CustomObject:
            common["kind"] = resource.kind
        return [{**common, **item} for item in listing.items]

    async def create(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        """Make an object."""
        return await self._client.create(_resource(kind), namespace, body)

    async def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json:
        """Change parts of an object."""
        return await self._client.patch(
            _resource(kind),
            namespace,
            name,
            body,
            content_type=requests.MERGE,
            subresource=subresource,
        )

    async def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete an object."""
        await self._client.delete(_resource(kind), namespace, name)

    async def watch(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> AsyncIterator[WatchEvent]:
        """All objects as ADDED, then their changes."""
        request = requests.watch(_resource(kind), namespace, label_selector=_selector(labels))
        async with self._client.stream(request) as read:
            async for event in watch_events(read):
                if event.type != "BOOKMARK":
                    yield WatchEvent(event.type, _object(event.object))


def _selector(labels: Labels) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _object(data: msgspec.Raw) -> Json:
    try:
        decoded: Json = deep_json.decode(data)
        return decoded
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(0, "Unreadable", f"an object of the watch is not JSON: {error}") from None
