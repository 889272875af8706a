"""Chunks in memory, the newest ones: within a limit of bytes.

A blob stays as long as a chunk that needs it.
"""

from collections import deque
from collections.abc import Iterable

from moorage.ledger.records import Blob, Chunk


class RingEntry:
    """A chunk in memory."""

    __slots__ = ("_blobs", "_chunk")

    def __init__(self, chunk: Chunk, blobs: Iterable[Blob]) -> None:
        self._chunk = chunk
        self._blobs = {blob.number: blob for blob in blobs}

    @property
    def first(self) -> int:
        """The number of its first decision."""
        return self._chunk.first

    @property
    def count(self) -> int:
        """How many decisions it has."""
        return self._chunk.count

    @property
    def blobs(self) -> Iterable[Blob]:
        """What it needs."""
        return self._blobs.values()

    def mentions(self, pod: str) -> bool:
        """May it have a decision about a pod?"""
        return self._chunk.mentions(pod)

    def chunk(self) -> Chunk:
        """The chunk itself."""
        return self._chunk

    def blob(self, number: int) -> Blob:
        """A blob that belongs to it."""
        if number not in self._blobs:
            raise ValueError(f"blob {number} is missing")
        return self._blobs[number]


class Ring:
    """The newest chunks."""

    def __init__(self) -> None:
        self.entries: deque[RingEntry] = deque()
        self.bytes = 0
        """About how much memory everything takes."""
        self.count = 0
        self._needed: dict[int, int] = {}
        """How many chunks need each blob."""

    def add(self, chunk: Chunk, blobs: Iterable[Blob]) -> None:
        """Take a chunk in."""
        entry = RingEntry(chunk, blobs)
        self.entries.append(entry)
        self.count += chunk.count
        self.bytes += chunk.bytes
        for blob in entry.blobs:
            known = self._needed.get(blob.number, 0)
            self._needed[blob.number] = known + 1
            if not known:
                self.bytes += blob.bytes

    def shrink(self, limit: int) -> None:
        """Let the oldest chunks go until the rest takes no more than `limit` bytes."""
        while self.entries and self.bytes > limit:
            entry = self.entries.popleft()
            self.count -= entry.count
            self.bytes -= entry.chunk().bytes
            for blob in entry.blobs:
                self._needed[blob.number] -= 1
                if not self._needed[blob.number]:
                    del self._needed[blob.number]
                    self.bytes -= blob.bytes
