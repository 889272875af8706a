"""What a soak sees of the cluster: every pod's way to a node, and what must not happen to it."""

import asyncio
import time
from contextlib import suppress

from soak.api import PODS, Api
from soak.pods import Json

LONGEST_WAIT = 90.0
"""Seconds until a pod that fits has a node.

When watches fail again and again, a reflector waits for up to a minute before it watches anew, as
client-go's do; a killed leader and a restarted server come on top.
"""


class Watcher:
    """Follows all pods by a watch of its own that takes no part in the faults."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nodes: dict[str, str] = {}
        """By UID, where a pod was bound."""
        self._uids: dict[str, str] = {}
        self._seen: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        self._deleting: set[str] = set()
        self.bindings = 0
        self.evictions = 0
        self.longest_wait = 0.0
        self.bound_twice: list[str] = []
        self.lost: list[str] = []

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return len(self._uids)

    def named(self, prefix: str) -> int:
        """How many pods have a name that begins so."""
        return sum(name.startswith(prefix) for name in self._uids)

    def waiting(self, longer_than: float = 0.0) -> list[str]:
        """The pods that should have a node by now and have none."""
        now = time.monotonic()
        return [
            name
            for name, uid in self._uids.items()
            if uid not in self._nodes
            and not name.startswith("misfit-")
            and (not name.startswith("filler-") or not longer_than)
            and now - self._seen[name] > longer_than
        ]

    async def bound(self, name: str) -> None:
        """Return when a pod has a node, or is gone."""
        event = self._waiting.setdefault(name, asyncio.Event())
        if self._nodes.get(self._uids.get(name, "")):
            event.set()
        with suppress(TimeoutError):  # `waiting` tells of it
            await asyncio.wait_for(event.wait(), LONGEST_WAIT)
        self._waiting.pop(name, None)

    def deleting(self, name: str) -> None:
        """A pod is about to be deleted on purpose."""
        self._deleting.add(name)

    async def run(self) -> None:
        """Watch for ever."""
        async for kind, found in self._api.changes(PODS):
            if kind == "SYNC":
                names = {pod["metadata"]["name"] for pod in found}
                for name in [name for name in self._uids if name not in names]:
                    self._gone(name)
                for pod in found:
                    self._look(pod)
            elif kind == "DELETED":
                self._gone(found["metadata"]["name"])
            else:
                self._look(found)

    def _look(self, pod: Json) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if name not in self._uids:
            self._uids[name] = uid
            self._seen[name] = time.monotonic()
        place = pod["spec"].get("nodeName")
        if not place:
            if uid in self._nodes:
                self.bound_twice.append(f"{name} lost its node {self._nodes[uid]}")
            return
        known = self._nodes.setdefault(uid, place)
        if known != place:
            self.bound_twice.append(f"{name} is on {place} after {known}")
        event = self._waiting.get(name)
        if event is not None and not event.is_set():
            event.set()
        if not pod.get("status", {}).get("startTime"):
            self.bindings += 1
            if not name.startswith("filler-"):
                waited = time.monotonic() - self._seen[name]
                self.longest_wait = max(self.longest_wait, waited)

    def _gone(self, name: str) -> None:
        uid = self._uids.pop(name, None)
        if uid is None:
            return
        self._nodes.pop(uid, None)
        self._seen.pop(name, None)
        if name in self._deleting:
            self._deleting.discard(name)
        elif name.startswith("filler-"):
            self.evictions += 1
        else:
            self.lost.append(name)
        event = self._waiting.pop(name, None)
        if event is not None:
            event.set()
