"""List and watch: keeps a `Store` equal to a collection of the API server, through every cut.

Owns the protocol: streaming lists where the server offers them and paged lists where not,
bookmarks, resuming from the last resource version, listing again when that has expired, and
back-off. `decoding` decides what an object means, `store` what handlers get.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random

from moorage import log_lines
from moorage.config.pod_level import Adjust
from moorage.errors import ApiError, DecodeError, KubeconfigError, MoorageError, UnreachableError
from moorage.kube import requests
from moorage.kube.client import KubeClient, Read
from moorage.kube.decoding import (
    INITIAL_EVENTS_END,
    Envelope,
    Malformed,
    ObjectReader,
    outline,
    watch_events,
)
from moorage.kube.resources import Resource
from moorage.kube.store import Store
from moorage.kube.timing import Backoff, Timer
from moorage.model.meta import ApiObject

log = logging.getLogger(__name__)

SHORT_WATCH = 1.0
INITIAL_SILENCE = 30.0
"""A server that says nothing for so long in the middle of a streaming list is not offering one."""
PATIENCE = 3
"""After so many server errors in a row a watch is not resumed any more but begun with a list."""
BATCH = 256
REFUSED = frozenset({400, 405, 422})

Listed = dict[str, ApiObject | Malformed]


class Reflector:
    """One collection, followed by `run` until that is cancelled."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        store: Store,
        *,
        timer: Timer,
        random: Random,
        field_selector: str = "",
        streaming: bool = True,
        needs_source: Callable[[ApiObject], bool] | None = None,
        adjust: Adjust | None = None,
    ) -> None:
        self.resource = resource
        self._go_type = f"*{resource.version}.{resource.kind}"  # as upstream's log has it
        self.store = store
        self.synced = asyncio.Event()
        self.last_error: MoorageError | None = None
        self.resource_version = ""
        self._client = client
        self._reader = ObjectReader(resource, needs_source, adjust=adjust, skipped=store.skipped)
        self._timer = timer
        self._random = random
        self._backoff = Backoff(timer, random)
        self._field_selector = field_selector
        self._streaming = streaming
        self._listed = False
        self._version_unavailable = False
        self._unfinished_lists = 0
        self._server_errors = 0

    async def run(self) -> None:
        """Follow the collection for ever."""
        log_lines.STARTING_REFLECTOR(self._go_type, "0s")
        while True:
            try:
                progress = await self._step()
            except (ApiError, KubeconfigError) as error:
                progress = self._failed(error)
            if not progress:
                asked = getattr(self.last_error, "retry_after", None) or 0.0
                await self._timer.sleep(max(asked, self._backoff.next()))

    async def _step(self) -> bool:
        """List, or watch until the stream ends; False if to try again at once would be rash."""
        if not self._listed:
            log_lines.LISTING(self._go_type)
        if not self._listed and not self._streaming:
            await self._list()
            return True
        started = self._timer.now()
        count = 0
        try:
            async with self._client.stream(self._watch_request()) as read:
                # Only a full set of initial events makes a list, so they are gathered first.
                gathered: Listed | None = None if self._listed else {}
                events = watch_events(partial(self._piece, read))
                try:
                    async for event in events:
                        gathered = await self._take(event, gathered)
                        count += 1
                except ApiError as error:
                    if not (isinstance(error, UnreachableError) or _may_resume_after(error)):
                        self._listed = False
                    raise
        except UnreachableError as error:
            if not count:
                raise
            self._note(error, serious=False)
        if not self._listed:
            self._unfinished_lists += 1
            if self._unfinished_lists > 1:
                self._streaming = False
            return False
        worked = count > 0 or self._timer.now() - started >= SHORT_WATCH
        if worked:
            self._backoff.reset()
        return worked

    def _watch_request(self) -> requests.Request:
        initial = not self._listed
        return requests.watch(
            self.resource,
            field_selector=self._field_selector,
            resource_version="" if initial and self._version_unavailable else self.resource_version,
            timeout_seconds=requests.watch_seconds(self._random),
            initial_events=initial,
        )

    async def _list(self) -> None:
        version = "" if self._version_unavailable else self.resource_version or "0"
        listing = await self._client.list_all(
            self.resource,
            self._reader.read,
            field_selector=self._field_selector,
            resource_version=version,
            # With a version the list can come from the server's cache, but only in one piece.
            limit=requests.PAGE_SIZE if version in ("", "0") else 0,
        )
        await self._replace(listing.items, listing.resource_version)

    async def _piece(self, read: Read) -> bytes:
        """The next piece of a watch; in the middle of a list, silence counts as the end."""
        try:
            async with asyncio.timeout(None if self._listed else INITIAL_SILENCE):
                return await read()
        except TimeoutError:
            return b""

    async def _take(self, event: Envelope, gathered: Listed | None) -> Listed | None:
        """Act on one event of the watch; what is gathered from then on."""
        if event.type != "BOOKMARK":
            self._change(event, gathered)
            return gathered
        meta = outline(event.object).metadata
        if gathered is None:
            self._seen(meta.resource_version)
            return None
        if (meta.annotations or {}).get(INITIAL_EVENTS_END) != "true":
            return gathered
        await self._replace(list(gathered.values()), meta.resource_version)
        return None

    def _change(self, event: Envelope, gathered: Listed | None) -> None:
        if event.type == "DELETED":
            meta = outline(event.object).metadata
            if not meta.name:
                self.store.skipped.skip("", DecodeError("a deletion that names no object"))
                return
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            if gathered is None:
                self.store.remove(key)
                self._seen(meta.resource_version)
            else:
                gathered.pop(key, None)
            return
        if event.type not in ("ADDED", "MODIFIED"):
            log.error("skipped an event of the unknown type %r", event.type)
            return
        found = self._reader.read(event.object)
        if gathered is not None:
            gathered[found.key] = found
        elif isinstance(found, Malformed):
            self._seen(found.resource_version)
        else:
            self.store.put(found)
            self._seen(found.metadata.resource_version)

    async def _replace(self, listed: list[ApiObject | Malformed], version: str) -> None:
        for step, _ in enumerate(self.store.replacing(listed)):
            if step % BATCH == BATCH - 1:
                await asyncio.sleep(0)  # thousands of handler calls must not stop the others
        self.resource_version = version
        self._version_unavailable = False
        self._unfinished_lists = 0
        self._listed = True
        self.last_error = None
        self.synced.set()
        log_lines.CACHES_POPULATED(self._go_type)

    def _seen(self, version: str) -> None:
        if version:
            self.resource_version = version
        self.last_error = None
        self._server_errors = 0

    def _failed(self, error: MoorageError) -> bool:
        """Draw the consequences of an error; True to go on at once."""
        if not isinstance(error, ApiError):
            self._note(error, serious=True)
            return False
        refused = not self._listed and self._streaming and error.status in REFUSED
        self._note(error, serious=not (refused or error.is_expired))
        if error.is_expired or error.is_version_too_large:
            # First ask for anything not older than what we know; if even that is gone, for the
            # newest there is.
            at_once = not self._listed and not self._version_unavailable
            self._version_unavailable = not self._listed
            self._listed = False
            return at_once
        if refused:
            self._streaming = False
            return True
        self._server_errors += error.status >= 500
        if self._server_errors >= PATIENCE:
            self._server_errors = 0
            self._listed = False
        return False

    def _note(self, error: MoorageError, *, serious: bool) -> None:
        self.last_error = error
        doing = "watch" if self._listed else "list"
        level = logging.WARNING if serious else logging.INFO
        log.log(level, "cannot %s %s: %s", doing, self.resource.kind, error)


def _may_resume_after(error: ApiError) -> bool:
    """Did the watch end in a way that leaves its resource version as good as it was?"""
    return error.is_expired or error.status == 429
