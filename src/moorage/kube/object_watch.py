"""Follows one object of the API by a watch, through every cut, and reports each change.

For what must be noticed soon but is looked up elsewhere too: a change during a cut may be missed.
Keeps nothing; whoever needs a store that is always equal to the server's uses `reflector`.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Protocol

import msgspec

from moorage.errors import ApiError, KubeconfigError, MoorageError
from moorage.kube import deep_json, requests
from moorage.kube.client import Read, status_error
from moorage.kube.decoding import LineBuffer, SkippedObjects, envelope
from moorage.kube.requests import Json, Request
from moorage.kube.resources import Resource
from moorage.kube.timing import Backoff, Timer

log = logging.getLogger(__name__)

WATCH_SECONDS = (300.0, 600.0)
SHORT_WATCH = 1.0


class StreamApi(Protocol):
    """What of `KubeClient` a watch needs."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[Read]:
        """A long answer."""
        ...


class ObjectWatch:
    """One object, followed by `run` until that is cancelled."""

    def __init__(
        self,
        client: StreamApi,
        resource: Resource,
        namespace: str,
        name: str,
        on_change: Callable[[str, Json], None],
        *,
        timer: Timer,
        random: Random,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._name = name
        self._on_change = on_change
        self._timer = timer
        self._random = random
        self._backoff = Backoff(timer, random)
        self._skipped = SkippedObjects(resource.kind)
        self._reported = ""

    async def run(self) -> None:
        """Follow the object for ever; `on_change` gets ADDED, MODIFIED or DELETED and the object.

        A watch begins with the object as it is, so each new connection reports it again.
        """
        while True:
            started = self._timer.now()
            try:
                await self._watch()
            except (ApiError, KubeconfigError) as error:
                self._failed(error)
            else:
                if self._timer.now() - started >= SHORT_WATCH:
                    self._backoff.reset()
                    continue
            await self._timer.sleep(self._backoff.next())

    async def _watch(self) -> None:
        low, high = WATCH_SECONDS
        request = requests.watch(
            self._resource,
            self._namespace,
            field_selector=f"metadata.name={self._name}",
            resource_version="0",
            timeout_seconds=int(low + self._random.random() * (high - low)),
        )
        async with self._client.stream(request) as read:
            self._reported = ""
            buffer = LineBuffer()
            while piece := await read():
                for line in buffer.feed(piece):
                    self._take(line)

    def _take(self, line: bytes) -> None:
        event = envelope(line)
        if event is None:
            raise ApiError(0, "Unreadable", f"a line of the watch is not an event: {line[:80]!r}")
        if event.type == "ERROR":
            raise status_error(bytes(event.object), otherwise="the watch ended with an error")
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            try:
                obj = deep_json.decode(event.object)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._skipped.skip(f"{self._namespace}/{self._name}", error)
                return
            if isinstance(obj, dict):
                self._on_change(event.type, obj)

    def _failed(self, error: MoorageError) -> None:
        """Say it once, however often it comes again."""
        level = logging.DEBUG if str(error) == self._reported else logging.INFO
        self._reported = str(error)
        kind = self._resource.kind
        log.log(level, "cannot watch %s %s/%s: %s", kind, self._namespace, self._name, error)
