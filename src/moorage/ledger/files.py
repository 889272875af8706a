"""A ledger on disk: files that are only ever appended to, the oldest removed when there are many.

Owns the frame around chunks and blobs (docs/ledger-format.md): a header with the version, then
records with a length and a checksum. A file needs no other file: every blob that a chunk needs
stands before it. A write that was cut off is noticed when the file is read, and costs no more than
itself.
"""

import fcntl
import logging
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from moorage.errors import InputError
from moorage.ledger.records import READABLE, VERSION, Blob, Chunk

log = logging.getLogger(__name__)

MAGIC = b"MOORLEDG"
SUFFIX = ".ledger"
FILE_BYTES = 64 * 1024 * 1024
KEPT_FILES = 8

_HEADER = struct.Struct("<8sII")
_RECORD = struct.Struct("<BII")
_BLOB, _CHUNK = 1, 2
_PREFIX = "decisions-"
_NAME = re.compile(rf"{_PREFIX}([0-9]{{12}})(-[0-9]+)?{re.escape(SUFFIX)}")
_MOST_RECORD_BYTES = 2**30


class LedgerFiles:
    """The files of a running ledger."""

    def __init__(self, directory: Path, file_bytes: int, kept_files: int) -> None:
        self.directory = directory
        self._file_bytes = file_bytes
        self._kept_files = max(kept_files, 1)
        self._file: BinaryIO | None = None
        self._size = 0
        self._known: set[int] = set()
        """The blobs that the current file has."""
        self.broken = False
        """The disk failed: nothing is written any more."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(directory, os.W_OK | os.X_OK):
                raise InputError(
                    f"{directory}: the ledger cannot be kept here: it is not writable."
                )
            self._lock: int | None = _locked(directory)
            self.next_number = _next_number(directory)
        except OSError as error:
            raise InputError(f"{directory}: the ledger cannot be kept here: {error}.") from error

    def write(self, chunk: Chunk, blobs: Sequence[Blob]) -> None:
        """Append a chunk; a disk that fails is told once and not used any more."""
        if self.broken:
            return
        try:
            if self._file is None or self._size >= self._file_bytes:
                self._rotate(chunk.first)
            self._append(chunk, blobs)
        except OSError as error:
            self.broken = True
            log.error("%s: the ledger is not written any more: %s", self.directory, error)

    def close(self) -> None:
        """Finish the current file; the directory is another's to use."""
        self._finish()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _finish(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, chunk: Chunk, blobs: Sequence[Blob]) -> None:
        assert self._file is not None, "a file is opened before anything is written"
        new = [blob for blob in blobs if blob.number not in self._known]
        data = b"".join([*(_record(_BLOB, blob) for blob in new), _record(_CHUNK, chunk)])
        self._file.write(data)
        self._file.flush()
        self._size += len(data)
        self._known.update(blob.number for blob in new)

    def _rotate(self, first: int) -> None:
        self._finish()
        current, self._file = _create(self.directory, first)
        header = _HEADER.pack(MAGIC, VERSION, 0)
        self._file.write(header)
        self._size = len(header)
        self._known = set()
        # The current file is kept wherever its name stands among the others.
        others = [path for path in ledger_files(self.directory) if path != current]
        for path in others[: max(len(others) + 1 - self._kept_files, 0)]:
            path.unlink(missing_ok=True)


def _locked(directory: Path) -> int:
    """Keep other writers out until the handle returned is closed or the process ends.

    The directory itself is locked, so that it holds nothing but decisions; readers need no lock.
    """
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InputError(
            f"{directory}: the ledger cannot be kept here: "
            "another scheduler keeps its ledger in this directory."
        ) from None
    except OSError as error:
        # Some file systems have no locks; that is no reason to go without a ledger.
        log.warning("%s: it cannot be told whether others write here: %s", directory, error)
    return lock


def _create(directory: Path, first: int) -> tuple[Path, BinaryIO]:
    for attempt in range(1000):
        # Not every file system has locks, so somebody else may write here after all; a file of
        # its own for each keeps both readable.
        extra = f"-{attempt}" if attempt else ""
        path = directory / f"{_PREFIX}{first:012}{extra}{SUFFIX}"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        return path, os.fdopen(handle, "wb")
    raise FileExistsError(f"too many files of decision {first}")


def _record(kind: int, value: Chunk | Blob) -> bytes:
    payload = msgspec.msgpack.encode(value)
    return _RECORD.pack(kind, len(payload), _checksum(kind, payload)) + payload


def _checksum(kind: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<BI", kind, len(payload))))


def ledger_files(directory: Path) -> list[Path]:
    """The files of a ledger, the oldest first; `OSError` if the directory cannot be read."""
    # `Path.glob` finds nothing where it may not look.
    names = os.listdir(directory)
    return sorted(
        directory / name for name in names if name.startswith(_PREFIX) and name.endswith(SUFFIX)
    )


def _next_number(directory: Path) -> int:
    """The number after the last that is written here, as far as that can be read."""
    least = 1
    for path in reversed(ledger_files(directory)):
        try:
            chunks = scan(path).chunks
        except InputError as error:
            log.warning("%s", error)
            chunks = []
        if chunks:
            return max(least, chunks[-1].first + chunks[-1].count)
        # Of a file that tells nothing the name tells one number that is taken.
        named = _NAME.fullmatch(path.name)
        least = max(least, int(named[1]) + 1) if named else least
    return least


# Reading


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk is, and what is in it."""

    first: int
    count: int
    hashes: bytes
    offset: int
    length: int


class Scanned(NamedTuple):
    """What is in a file."""

    path: Path
    chunks: list[Place]
    blobs: dict[int, tuple[int, int]]
    """Offset and length of each blob."""
    problem: str = ""
    """What could not be read, as one sentence."""


def scan(path: Path) -> Scanned:
    """Find everything in a file; `InputError` if it is not a ledger that can be read."""
    scanned = Scanned(path, [], {})
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            cut = _check_header(path, file.read(_HEADER.size))
            end = _HEADER.size
            for kind, offset, payload in _records(file, end):
                if not _note(scanned, kind, offset, payload):
                    break
                # Blobs are there for the chunk that follows.
                end = end if kind == _BLOB else offset + len(payload)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if cut or end < size:
        return scanned._replace(problem=_damage(scanned, 0 if cut else end, size))
    return scanned


def _check_header(path: Path, header: bytes) -> bool:
    """Is the file cut off within its header?"""
    if len(header) < _HEADER.size:
        if MAGIC.startswith(header[: len(MAGIC)]):
            return True
        raise InputError(f"{path} is not a ledger: it does not begin with {MAGIC.decode()}.")
    magic, version, _ = _HEADER.unpack(header)
    if magic != MAGIC:
        raise InputError(f"{path} is not a ledger: it does not begin with {MAGIC.decode()}.")
    if version not in READABLE:
        raise InputError(
            f"{path} is a ledger of format version {version}, "
            f"but this version of Moorage reads versions {READABLE[0]} to {READABLE[-1]}."
        )
    return False


def _records(file: BinaryIO, offset: int) -> Iterator[tuple[int, int, bytes]]:
    """Kind, place and payload of each record, up to the first that is not whole."""
    while True:
        header = file.read(_RECORD.size)
        if len(header) < _RECORD.size:
            return
        kind, length, checksum = _RECORD.unpack(header)
        if length > _MOST_RECORD_BYTES:
            return
        payload = file.read(length)
        if len(payload) < length or _checksum(kind, payload) != checksum:
            return
        offset += _RECORD.size
        yield kind, offset, payload
        offset += length


def _note(scanned: Scanned, kind: int, offset: int, payload: bytes) -> bool:
    """Note where a record is; false if it makes no sense."""
    try:
        if kind == _BLOB:
            blob = msgspec.msgpack.decode(payload, type=Blob)
            scanned.blobs[blob.number] = (offset, len(payload))
        elif kind == _CHUNK:
            chunk = msgspec.msgpack.decode(payload, type=Chunk)
            place = Place(chunk.first, chunk.count, chunk.hashes, offset, len(payload))
            scanned.chunks.append(place)
    except (msgspec.MsgspecError, ValueError):  # text that is no UTF-8 is a ValueError
        return False
    return True


def _damage(scanned: Scanned, end: int, size: int) -> str:
    where = f"{scanned.path} is cut off or damaged at byte {end} of {size}"
    if not scanned.chunks:
        return f"{where}, before its first decision."
    last = scanned.chunks[-1].first + scanned.chunks[-1].count - 1
    return f"{where}; the decisions up to {last} can be read."
