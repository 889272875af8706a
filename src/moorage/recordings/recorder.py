"""Writes a live cluster down as it changes: objects first, then changes with their times.

Owns which kinds are read, and what is new when a recording goes on after a pause. Only reads; how
a collection is followed through every cut is `kube.reflector`'s part.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from moorage.errors import ApiError, InputError
from moorage.kube import requests
from moorage.kube.client import KubeClient
from moorage.kube.informers import FIELD_SELECTORS, Informers
from moorage.kube.resources import resource_for
from moorage.kube.snapshot import ESSENTIAL
from moorage.kube.store import FunctionHandler
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject, Json
from moorage.recordings.anonymous import Anonymizer
from moorage.recordings.recording_file import (
    API_VERSION,
    KIND,
    Named,
    Record,
    Recording,
    RecordingHeader,
    RecordingWriter,
)
from moorage.recordings.reduced import reduced
from moorage.version import KUBERNETES_VERSION

_TURN_SECONDS = 1.0
_encode = msgspec.json.Encoder().encode


class RecordingState(NamedTuple):
    """How far a recording is."""

    complete: bool
    """Is everything written that was there in the beginning?"""
    objects: int
    changes: int
    bytes: int


class ClusterRecorder:
    """Appends what happens to objects; knows of each what was written last."""

    def __init__(
        self, writer: RecordingWriter, now: Callable[[], float], anonymizer: Anonymizer | None
    ) -> None:
        self._writer = writer
        self._now = now
        self._anonymizer = anonymizer
        self._known: dict[Named, int] = {}
        """By name, a checksum of what was written."""
        self._changes = 0
        self._complete = False

    @property
    def state(self) -> RecordingState:
        """How far it is."""
        size = self._writer.size
        return RecordingState(self._complete, len(self._known), self._changes, size)

    def begin(self, kinds: Iterable[str]) -> None:
        """Begin the file, or go on behind what is there."""
        now, anonymized = self._now(), self._anonymizer is not None
        if not self._writer.size:
            header = RecordingHeader(
                API_VERSION, KIND, now, KUBERNETES_VERSION, tuple(kinds), anonymized
            )
            self._writer.begin(header)
            return
        recording = Recording(self._writer.path)
        if recording.header.anonymized != anonymized:
            given = "with" if recording.header.anonymized else "without"
            text = f"expected to be gone on {given} --anonymize, as it was begun"
            raise InputError(f"{self._writer.path}: {text}")
        for numbered in recording:
            self._recall(recording, numbered.record)
        self._writer.go_on(recording.whole_bytes)
        self._writer.write(Record(now, resumed=True))

    def _recall(self, recording: Recording, record: Record) -> None:
        if record.deleted is not None:
            self._known.pop(record.deleted, None)
        elif record.object:
            content = msgspec.json.decode(record.object)
            try:
                self._known[_named(content)] = _checksum(content)
            except (KeyError, TypeError):
                text = "expected objects with kind and metadata.name"
                raise InputError(f"{recording.path}: {text}") from None

    def put(self, obj: ApiObject) -> None:
        """An object is there in this form."""
        content = reduced(obj)
        if self._anonymizer is not None:
            content = self._anonymizer.record(content)
        name, checksum = _named(content), _checksum(content)
        if self._known.get(name) == checksum:
            return
        self._known[name] = checksum
        self._write(Record(self._now(), object=msgspec.Raw(_encode(content))))

    def gone(self, obj: ApiObject) -> None:
        """An object is not there any more."""
        self._delete(self._name_of(obj))

    def synced(self, kind: str, there: Iterable[ApiObject]) -> None:
        """All objects of a kind have been put: those known from before may be gone."""
        left = {name for name in self._known if name.kind == kind}
        for name in sorted(left.difference(map(self._name_of, there)), key=msgspec.structs.astuple):
            self._delete(name)

    def complete(self) -> None:
        """From now on changes follow, as they happen."""
        self._complete = True
        self._writer.write(Record(self._now(), complete=True))

    def _delete(self, name: Named) -> None:
        if self._known.pop(name, None) is not None:
            self._write(Record(self._now(), deleted=name))

    def _write(self, record: Record) -> None:
        self._changes += self._complete
        self._writer.write(record)
        if self._writer.is_full:
            self._writer.flush()

    def _name_of(self, obj: ApiObject) -> Named:
        parts = (obj.name, obj.namespace)
        if self._anonymizer is not None:
            parts = (self._anonymizer.name(obj.name), self._anonymizer.name(obj.namespace))
        return Named(type(obj).__name__, *parts)


def _named(content: Json) -> Named:
    meta = content["metadata"]
    return Named(content["kind"], meta["name"], meta.get("namespace", ""))


def _checksum(content: Json) -> int:
    meta = {name: part for name, part in content["metadata"].items() if name != "resourceVersion"}
    return zlib.crc32(_encode({**content, "metadata": meta}))


async def readable_kinds(client: KubeClient) -> tuple[list[str], dict[str, str]]:
    """What a scheduler reads, as far as it can be listed; the others with the server's reason.

    `ApiError` if nodes or pods cannot be listed. What the server does not have is left out.
    """
    kinds, refused = [], {}
    for kind in (*ESSENTIAL, *(kind for kind in KINDS if kind not in ESSENTIAL)):
        selector = FIELD_SELECTORS.get(kind, "")
        try:
            await client.page(requests.list_(resource_for(kind), field_selector=selector, limit=1))
        except ApiError as error:
            if kind in ESSENTIAL or not error.status:
                raise
            if not error.is_not_found:
                refused[kind] = str(error)
        else:
            kinds.append(kind)
    return kinds, refused


async def record(
    client: KubeClient,
    recorder: ClusterRecorder,
    kinds: Iterable[str],
    stop: asyncio.Event,
    writer: RecordingWriter,
    on_turn: Callable[[RecordingState], None],
) -> None:
    """Record until told to stop; `on_turn` hears every second how far it is."""
    informers = Informers(client, kinds)
    for kind, store in informers.stores.items():
        handler = FunctionHandler(
            recorder.put,
            lambda _, new: recorder.put(new),
            recorder.gone,
            partial(recorder.synced, kind, store.objects.values()),
        )
        informers.add_handler(kind, handler)
    informers.start()
    try:
        while not stop.is_set():
            informers.raise_failure()
            if informers.has_synced and not recorder.state.complete:
                recorder.complete()
            writer.flush()
            on_turn(recorder.state)
            try:
                async with asyncio.timeout(_TURN_SECONDS):
                    await stop.wait()
            except TimeoutError:
                continue
    finally:
        await informers.stop()
