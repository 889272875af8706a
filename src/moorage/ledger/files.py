"""A ledger on disk: files that are only ever appended to, the oldest removed when there are many.

Owns the frame around the entries (docs/ledger-format.md): a header with the version, then records
with a length and a checksum. A file needs no other file: it begins with a snapshot of all objects.
A write that was cut off is noticed when the file is read, and costs no more than itself.
"""

import contextlib
import fcntl
import logging
import os
import re
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from moorage.errors import InputError
from moorage.ledger.entries import VERSION, Change, Chunk, ChunkPlace, pack, unpack
from moorage.ledger.objects import Objects

log = logging.getLogger(__name__)

MAGIC = b"MOORAGE\n"
SUFFIX = ".ledger"
FILE_BYTES = 64 * 1024 * 1024
KEPT_FILES = 8

_HEADER = struct.Struct("<8sII")
_RECORD = struct.Struct("<BII")
_SNAPSHOT, _CHUNK = 1, 2
_PREFIX = "decisions-"
_NAME = re.compile(rf"{_PREFIX}([0-9]{{12}})(-[0-9]+)?{re.escape(SUFFIX)}")
_MOST_RECORD_BYTES = 2**30
_CHUNKS = msgspec.msgpack.Decoder(Chunk)
_SLICE = 500
"""So many objects of a snapshot are written at once."""


class LedgerFiles:
    """The files of a running ledger."""

    def __init__(self, directory: Path, file_bytes: int, kept_files: int) -> None:
        self.directory = directory
        self._file_bytes = file_bytes
        self._kept_files = max(kept_files, 1)
        self._file: BinaryIO | None = None
        self._size = 0
        self._pending: deque[Chunk | Sequence[Change]] = deque()
        """What is left of the snapshot that the current file begins with, and the chunks after."""
        self.broken = False
        """The disk failed: nothing is written any more."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(directory, os.W_OK | os.X_OK):
                raise _unusable(directory, "it is not writable")
            self._lock: int | None = _locked(directory)
            self.next_number = _next_number(directory)
        except OSError as error:
            raise _unusable(directory, error) from error

    @property
    def begun(self) -> bool:
        """Has a file been begun?"""
        return self._file is not None or self.broken

    @property
    def full(self) -> bool:
        """Should another file be begun?"""
        return self._size >= self._file_bytes and not self.broken

    @property
    def behind(self) -> bool:
        """Is there something to write?"""
        return bool(self._pending)

    def begin(self, first: int, snapshot: Sequence[Change]) -> None:
        """Begin a file with the objects as they are before decision `first`."""
        self._finish()
        if self.broken:
            return
        with self._told_if_broken():
            self._rotate(first)
            parts = range(0, len(snapshot), _SLICE)
            self._pending.extend(snapshot[start : start + _SLICE] for start in parts)
            self.write_some()

    def write(self, chunk: Chunk) -> None:
        """Append a chunk, after the snapshot."""
        if not self.broken:
            self._pending.append(chunk)
            self.write_some()

    def write_some(self) -> None:
        """Write a part of what waits."""
        if not self._pending:
            return
        part = self._pending.popleft()
        with self._told_if_broken():
            if isinstance(part, Chunk):
                self._append(_CHUNK, msgspec.msgpack.encode(part))
            else:
                self._append(_SNAPSHOT, pack(part))

    def _finish(self) -> None:
        while self._pending:
            self.write_some()
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Write everything; the directory is another's to use."""
        self._finish()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextlib.contextmanager
    def _told_if_broken(self) -> Iterator[None]:
        """A disk that fails is told once, and not used again."""
        try:
            yield
        except OSError as error:
            self.broken = True
            self._pending.clear()
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.close()
                self._file = None
            log.error("%s: the ledger is not written any more: %s", self.directory, error)

    def _append(self, kind: int, payload: bytes) -> None:
        assert self._file is not None, "a file is begun before anything is written"
        self._file.write(_RECORD.pack(kind, len(payload), _checksum(kind, payload)) + payload)
        self._file.flush()
        self._size += _RECORD.size + len(payload)

    def _rotate(self, first: int) -> None:
        current, self._file = _create(self.directory, first)
        self._size = self._file.write(_HEADER.pack(MAGIC, VERSION, 0))
        # The current file is kept wherever its name stands among the others.
        others = [path for path in ledger_files(self.directory) if path != current]
        for path in others[: max(len(others) + 1 - self._kept_files, 0)]:
            path.unlink(missing_ok=True)


def _unusable(directory: Path, why: object) -> InputError:
    return InputError(f"{directory}: the ledger cannot be kept here: {why}.")


def _locked(directory: Path) -> int:
    """Keep other writers out until the handle returned is closed or the process ends.

    The directory itself is locked, so that it holds nothing but decisions; readers need no lock.
    """
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        text = "another scheduler keeps its ledger in this directory"
        raise _unusable(directory, text) from None
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
            if chunks := LedgerFile(path).chunks:
                return max(least, chunks[-1].numbers.stop)
        except InputError as error:
            log.warning("%s", error)
        # Of a file that tells nothing the name tells one number that is taken.
        named = _NAME.fullmatch(path.name)
        least = max(least, int(named[1]) + 1) if named else least
    return least


# Reading


class LedgerFile:
    """What is in a file; `InputError` if it is not a ledger that can be read."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.chunks: list[ChunkPlace] = []
        self.problem = ""
        """What could not be read, as one sentence."""
        self._snapshot: list[Callable[[], bytes]] = []
        try:
            with path.open("rb") as file:
                self._scan(path, file)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from error

    def start(self) -> Objects:
        """The objects that it begins with; ValueError if they cannot be read."""
        objects = Objects()
        for read in self._snapshot:
            for change in unpack(read()):
                objects.follow(change)
        return objects

    def _scan(self, path: Path, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        whole = _check_header(path, file.read(_HEADER.size))
        end = _HEADER.size if whole else 0
        for kind, offset, payload in _records(file, end) if whole else ():
            read = partial(_read, path, offset, len(payload))
            if kind == _SNAPSHOT:
                self._snapshot.append(read)
            elif kind == _CHUNK:
                try:
                    chunk = _CHUNKS.decode(payload)
                except (msgspec.MsgspecError, ValueError):  # text that is no UTF-8 is a ValueError
                    break
                self.chunks.append(ChunkPlace(chunk, partial(_read_chunk, read)))
            end = offset + len(payload)
        if end < size or not whole:
            self.problem = f"{path} is cut off or damaged at byte {end} of {size}"
            if self.chunks:
                last = self.chunks[-1].numbers.stop - 1
                self.problem += f"; the decisions up to {last} can be read."
            else:
                self.problem += ", before its first decision."


def _read_chunk(read: Callable[[], bytes]) -> Chunk:
    return _CHUNKS.decode(read())


def _read(path: Path, offset: int, length: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error


def _check_header(path: Path, header: bytes) -> bool:
    """Is the header whole?"""
    if not MAGIC.startswith(header[: len(MAGIC)]):
        raise InputError(f"{path} is not a ledger: it does not begin as one.")
    if len(header) < _HEADER.size:
        return False
    _, version, _ = _HEADER.unpack(header)
    if version != VERSION:
        raise InputError(
            f"{path} is a ledger of format version {version}, "
            f"but this version of Moorage reads version {VERSION}."
        )
    return True


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
