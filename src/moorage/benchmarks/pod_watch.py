"""Pods followed by a watch, looked at no closer than a benchmark needs: where, and since when.

Decodes only the few fields that count, since the watcher shares the machine with what is measured.
Times are those at which the news came, by the monotonic clock.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

import msgspec

from moorage.errors import ApiError, UnreachableError
from moorage.kube import requests
from moorage.kube.client import KubeClient, status_error
from moorage.kube.decoding import LineBuffer
from moorage.kube.resources import resource_for


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Group(msgspec.Struct, rename="camel"):
    pod_group_name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_group: _Group | None = None
    resource_claims: list[msgspec.Raw] | None = None


class _Condition(msgspec.Struct):
    type: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class WatchedPod(msgspec.Struct):
    """What is looked at of a pod."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def attempted(self) -> bool:
        return any(c.type == "PodScheduled" for c in self.status.conditions or ())

    def selected(self, labels: Mapping[str, str]) -> bool:
        """Does it bear all these labels?"""
        own = self.metadata.labels or {}
        return all(own.get(key) == value for key, value in labels.items())


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_EVENTS = msgspec.json.Decoder(_Event)
_PODS = msgspec.json.Decoder(WatchedPod)

Bound = Callable[[WatchedPod, float], None]


class PodWatch:
    """All pods, or those of one namespace, and a call for each that gets a node."""

    def __init__(
        self, client: KubeClient, namespace: str = "", *, only_bound: bool = False
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._selector = "spec.nodeName!=" if only_bound else ""
        self._version = ""
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._pods: dict[str, dict[str, WatchedPod]] = {}
        self._bound: dict[str, int] = {}
        self.on_bound: list[Bound] = []
        self.on_change: list[Callable[[str, WatchedPod], None]] = []
        """Told of every event: its type and the pod."""

    async def __aenter__(self) -> "PodWatch":
        begin = requests.list_(resource_for("Pod"), self._namespace, limit=1)
        self._version = (await self._client.page(begin)).metadata.resource_version
        self._task = asyncio.create_task(self._follow(), name="pod watch")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def bound(self, namespace: str) -> int:
        """How many pods of a namespace are on nodes now."""
        return self._bound.get(namespace, 0)

    def pods(self, namespace: str) -> Iterator[WatchedPod]:
        return iter(self._pods.get(namespace, {}).values())

    def check(self) -> None:
        """Complain if the watch has ended."""
        if self._task is not None and self._task.done():
            error = self._task.exception()
            raise error or ApiError(0, "Ended", "the watch of pods has ended")

    async def changed(self, seconds: float) -> None:
        """Return when something happened, or after so long."""
        self.check()
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _follow(self) -> None:
        while True:
            asked = requests.watch(
                resource_for("Pod"),
                self._namespace,
                field_selector=self._selector,
                resource_version=self._version,
                timeout_seconds=3600,
            )
            try:
                async with self._client.stream(asked) as read:
                    buffer = LineBuffer()
                    while piece := await read():
                        now = time.monotonic()
                        for line in buffer.feed(piece):
                            self._take(line, now)
                        self._changed.set()
            except UnreachableError as error:
                if not error.maybe_applied:
                    raise

    def _take(self, line: bytes, now: float) -> None:
        event = _EVENTS.decode(line)
        if event.type == "ERROR":
            raise status_error(bytes(event.object), otherwise="the watch of pods failed")
        pod = _PODS.decode(event.object)
        self._version = pod.metadata.resource_version or self._version
        if event.type == "BOOKMARK":
            return
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        pods = self._pods.setdefault(namespace, {})
        old = pods.get(uid)
        was = old is not None and bool(old.spec.node_name)
        if event.type == "DELETED":
            pods.pop(uid, None)
            self._bound[namespace] = self.bound(namespace) - was
        else:
            pods[uid] = pod
            if pod.spec.node_name and not was:
                self._bound[namespace] = self.bound(namespace) + 1
                for tell in self.on_bound:
                    tell(pod, now)
        for told in self.on_change:
            told(event.type, pod)
