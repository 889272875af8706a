"""Acknowledged writes survive the process: an append-only journal and snapshots.

A change is written to the journal before anybody sees it, and a client gets its answer after the
journal was synced; writes that arrive during a sync share the next one. When a journal grows too
long, a new one begins and a snapshot is written beside it. Files are numbered: a state is the
newest snapshot and every journal from its number on.

    snapshot-00000003.log    everything when journal 3 began
    journal-00000003.log     what changed since

Each line is a checksum and a JSON record. A line cut off at the end of the last journal was never
acknowledged and is dropped; damage anywhere else is refused, and then no file is changed. The first
line of a snapshot says how many objects follow. Only the owner can read the files, since Secrets
are among the objects.
"""

import asyncio
import fcntl
import logging
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from moorage.apiserver.errors import ApiStatusError
from moorage.apiserver.history import Stored, StoredChange
from moorage.apiserver.resources import StorageKey
from moorage.apiserver.storage import Storage, make_stored
from moorage.errors import InputError

MAX_JOURNAL_BYTES = 128 * 2**20
# After a cut-off line, versions that a client may have seen must not be given out again.
_VERSION_GAP = 1000

_OUR_FILES = ("snapshot-", "journal-", "lock", "tls.")

_log = logging.getLogger(__name__)


class _Record(msgspec.Struct, omit_defaults=True):
    """One line: an object in a version, or the removal of one if there is no object."""

    storage: str = ""
    key: str = ""
    version: int = 0
    object: msgspec.Raw = msgspec.Raw()
    objects: int = -1
    """In the first line of a snapshot: how many lines follow."""


_read_record = msgspec.json.Decoder(_Record).decode


def _line(
    storage: StorageKey, key: str, version: int, data: bytes | None, objects: int = -1
) -> bytes:
    record = _Record(storage, key, version, objects=objects)
    if data is not None:
        record.object = msgspec.Raw(data)
    payload = msgspec.json.encode(record)
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def _failed(error: OSError) -> ApiStatusError:
    message = f"the journal cannot be written: {error.strerror}"
    return ApiStatusError(500, "InternalError", message)


class Journal:
    """The files of one data directory; one server at a time may hold it."""

    def __init__(self, directory: Path, max_bytes: int = MAX_JOURNAL_BYTES) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._store: Storage | None = None
        self._number = 0
        self._file = -1
        self._lock = -1
        self._size = 0
        self._written = 0
        self._synced = 0
        self._syncing: asyncio.Future[None] | None = None
        self._snapshot: asyncio.Future[None] | None = None
        self._broken: ApiStatusError | None = None
        self._broken_tail = False

    # ---- at start ----

    def load(self, store: Storage) -> None:
        """Put the kept state into the store and begin a new journal."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._take_lock()
        try:
            self._restore(store)
        except BaseException:
            self._release_lock()
            raise

    def _restore(self, store: Storage) -> None:
        self._tighten()
        self._store = store
        snapshots, journals = self._numbers("snapshot"), self._numbers("journal")
        objects: dict[tuple[str, str], tuple[int, bytes]] = {}
        version = 1
        files = self._files(snapshots, journals)
        for path in files:
            is_snapshot = path == files[0]
            records = (
                self._snapshot_records(path)
                if is_snapshot
                else self._records(path, may_end_early=path == files[-1])
            )
            for record in records:
                version = max(version, record.version)
                data = bytes(record.object)
                if data:
                    objects[record.storage, record.key] = record.version, data
                else:
                    objects.pop((record.storage, record.key), None)
        version += _VERSION_GAP if self._broken_tail else 0
        if files:
            store.restore(version, _stored(objects))
        self._number = max((*snapshots, *journals, 0)) + 1
        self._write_snapshot(self._number, version, list(store.everything()))
        self._open(self._number)
        self._forget_before(self._number)

    def _tighten(self) -> None:
        """Files of earlier versions were readable by everybody."""
        for path in self._directory.iterdir():
            if path.name.startswith(_OUR_FILES) and not path.is_symlink():
                path.chmod(0o600)

    def _files(self, snapshots: list[int], journals: list[int]) -> list[Path]:
        """The newest snapshot and the journals after it; refuses a gap between them."""
        if not snapshots and not journals:
            return []
        base = max(snapshots, default=0)
        if base == 0:
            raise InputError(
                f"{self._directory} has journals but no snapshot; restore the missing file "
                "from a copy"
            )
        following = sorted(number for number in journals if number >= base)
        for expected, number in enumerate(following, base):
            if number != expected:
                missing = self._path("journal", expected)
                raise InputError(f"{missing} is missing; restore the file from a copy")
        return [
            self._path("snapshot", base),
            *(self._path("journal", number) for number in following),
        ]

    def _snapshot_records(self, path: Path) -> Iterator[_Record]:
        records = self._records(path, may_end_early=False)
        first = next(records, None)
        if first is None or first.storage:
            raise InputError(
                f"{path} is empty or cut off, so it is not known what the cluster held; restore "
                "the file from a copy"
            )
        yield first
        found = 0
        for record in records:
            found += 1
            yield record
        if first.objects != found:
            raise InputError(
                f"{path} is cut off: it has {found} objects of {first.objects}; restore the "
                "file from a copy"
            )

    def _take_lock(self) -> None:
        self._lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._release_lock()
            raise InputError(
                f"the data directory {self._directory} is in use by another server"
            ) from None

    def _release_lock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _numbers(self, kind: str) -> list[int]:
        names = (path.stem.rpartition("-")[2] for path in self._directory.glob(f"{kind}-*.log"))
        return [int(name) for name in names if name.isascii() and name.isdigit()]

    def _path(self, kind: str, number: int) -> Path:
        return self._directory / f"{kind}-{number:08d}.log"

    def _records(self, path: Path, *, may_end_early: bool) -> Iterator[_Record]:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                record = _parse(line)
                if record is not None:
                    yield record
                    continue
                if may_end_early and not file.read(1):
                    self._broken_tail = True
                    _log.warning(
                        "%s ends in the middle of line %d; that write was never acknowledged "
                        "and is dropped",
                        path,
                        number,
                    )
                    return
                raise InputError(f"{path}:{number} is damaged; restore the file from a copy")

    # ---- while running ----

    def record(self, storage: StorageKey, change: StoredChange) -> None:
        """Append one change."""
        if self._broken is not None:
            raise self._broken
        data = None if change.after is None else change.after.data
        line = _line(storage, change.last.key, change.version, data)
        try:
            done = os.write(self._file, line)
            if done < len(line):
                raise OSError(0, "the disk is full")
        except OSError as error:
            # Half a line in the middle would make the rest of the journal unreadable.
            try:
                os.ftruncate(self._file, self._size)
            except OSError:
                self._broken = _failed(error)
            raise _failed(error) from None
        self._size += len(line)
        self._written += 1

    async def durable(self) -> None:
        """Return when everything recorded so far is on disk."""
        goal = self._written
        while self._synced < goal:
            if self._broken is not None:
                raise self._broken
            if self._syncing is None:
                self._syncing = asyncio.ensure_future(self._sync())
            await asyncio.shield(self._syncing)
        if self._size > self._max_bytes and self._snapshot is None:
            self._snapshot = asyncio.ensure_future(self._rotate())

    async def _sync(self) -> None:
        reached, file = self._written, self._file
        try:
            await asyncio.to_thread(os.fdatasync, file)
            self._synced = max(self._synced, reached)
        except OSError as error:
            # Nobody can tell what reached the disk: no further write may be acknowledged.
            self._broken = _failed(error)
        finally:
            self._syncing = None

    async def _rotate(self) -> None:
        """Begin a new journal, then write the snapshot that makes the old ones superfluous."""
        assert self._store is not None
        if self._syncing is not None:
            await asyncio.shield(self._syncing)
        old, objects = self._file, list(self._store.everything())
        number, version = self._number + 1, self._store.version
        try:
            self._open(number)
            self._number = number
            try:
                await asyncio.to_thread(os.fdatasync, old)
            finally:
                os.close(old)
            await asyncio.to_thread(self._write_snapshot, number, version, objects)
            self._forget_before(number)
        except OSError as error:
            _log.warning(
                "no snapshot was written in %s: %s; the older one and the journals stay",
                self._directory,
                error.strerror,
            )
        finally:
            self._snapshot = None

    def _open(self, number: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(self._path("journal", number), flags, 0o600)
        self._size = 0
        self._sync_directory()

    def _sync_directory(self) -> None:
        folder = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _write_snapshot(
        self, number: int, version: int, objects: list[tuple[StorageKey, Stored]]
    ) -> None:
        path = self._path("snapshot", number)
        draft = path.with_suffix(".tmp")
        draft.unlink(missing_ok=True)
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(_line("", "", version, None, len(objects)))
                for storage, stored in objects:
                    file.write(_line(storage, stored.key, stored.version, stored.data))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._sync_directory()

    def _forget_before(self, number: int) -> None:
        for kind in ("snapshot", "journal"):
            for old in self._numbers(kind):
                if old < number:
                    self._path(kind, old).unlink(missing_ok=True)

    async def stop(self) -> None:
        """Sync and close."""
        if self._snapshot is not None:
            await self._snapshot
        if self._file >= 0:
            await self.durable()
            os.close(self._file)
            self._file = -1
        self._release_lock()


def _parse(line: bytes) -> _Record | None:
    checksum, _, payload = line.rstrip(b"\n").partition(b" ")
    try:
        if not line.endswith(b"\n") or int(checksum, 16) != zlib.crc32(payload):
            return None
        return _read_record(payload)
    except (ValueError, msgspec.DecodeError):
        return None


def _stored(
    objects: dict[tuple[str, str], tuple[int, bytes]],
) -> Iterable[tuple[StorageKey, Stored]]:
    for (storage, key), (version, data) in objects.items():
        try:
            stored = make_stored(storage, key, version, msgspec.json.decode(data))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise InputError(f"the stored {storage} {key} is not an object of the API") from None
        yield storage, stored
