"""Follows one object of the API by a watch, through every cut, and reports each change.

For what must be noticed soon but is looked up elsewhere too: a change during a cut may be missed.
Keeps nothing; whoever needs a store that is always equal to the server's uses `reflector`.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import NoReturn, Protocol

import msgspec

from moorage.errors import ApiError, KubeconfigError
from moorage.kube import deep_json, requests
from moorage.kube.client import Read
from moorage.kube.decoding import SkippedObjects, watch_events
from moorage.kube.requests import Json, Request
from moorage.kube.resources import Resource
from moorage.kube.timing import Backoff, Timer

log = logging.getLogger(__name__)

SHORT_WATCH = 1.0


class StreamApi(Protocol):
    """What of `KubeClient` a watch needs."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[Read]:
        """A long answer."""
        ...


async def follow_object(
    client: StreamApi,
    resource: Resource,
    namespace: str,
    name: str,
    on_change: Callable[[str, Json], None],
    *,
    timer: Timer,
    random: Random,
) -> NoReturn:
    """Follow an object for ever; `on_change` gets ADDED, MODIFIED or DELETED and the object.

    A watch begins with the object as it is, so each new connection reports it again.
    """
    backoff = Backoff(timer, random)
    skipped = SkippedObjects(resource.kind)
    reported = ""
    while True:
        request = requests.watch(
            resource,
            namespace,
            field_selector=f"metadata.name={name}",
            resource_version="0",
            timeout_seconds=requests.watch_seconds(random),
        )
        started = timer.now()
        try:
            async with client.stream(request) as read:
                reported = ""
                async for event in watch_events(read):
                    if event.type not in ("ADDED", "MODIFIED", "DELETED"):
                        continue
                    try:
                        obj = deep_json.decode(event.object)
                    except (msgspec.DecodeError, UnicodeDecodeError) as error:
                        skipped.skip(f"{namespace}/{name}", error)
                        continue
                    if isinstance(obj, dict):
                        on_change(event.type, obj)
        except (ApiError, KubeconfigError) as error:
            # Said once, however often it comes again.
            level = logging.DEBUG if str(error) == reported else logging.INFO
            reported = str(error)
            log.log(level, "cannot watch %s %s/%s: %s", resource.kind, namespace, name, error)
        else:
            if timer.now() - started >= SHORT_WATCH:
                backoff.reset()
                continue
        await timer.sleep(backoff.next())
