"""Recordings as files: lines of JSON in small gzip members, one behind the other.

Owns the form and what a killed writer leaves: whole members are whole lines, and a member that was
cut off costs nothing but itself. Whoever goes on with a file cuts it there.
"""

import fcntl
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from moorage.errors import InputError
from moorage.model.decode import KINDS, decode_json
from moorage.model.meta import ApiObject

API_VERSION = "moorage.io/recording-v1"
KIND = "Recording"
_PIECE = 1 << 20
_FLUSHED_BYTES = 1 << 18
_GZIP = 31
"""For zlib: one gzip member."""


class RecordingHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The first record."""

    api_version: str
    kind: str
    at: float
    """When it began, in seconds since the epoch."""
    kubernetes: str = ""
    kinds: tuple[str, ...] = ()
    anonymized: bool = False


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object by its name."""

    kind: str
    name: str
    namespace: str = ""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the other records: one of the fields beside `at`."""

    at: float
    object: msgspec.Raw = msgspec.Raw(b"")
    """An object is there in this form."""
    deleted: Named | None = None
    complete: bool = False
    """Everything that was there is written: changes follow, as they happen."""
    resumed: bool = False
    """Nobody looked for a while; what changed meanwhile follows, until `complete`."""


class _Kind(msgspec.Struct):
    kind: str = ""


_HEADERS = msgspec.json.Decoder(RecordingHeader)
_RECORDS = msgspec.json.Decoder(Record)
_KINDS = msgspec.json.Decoder(_Kind)
_encode = msgspec.json.Encoder().encode


class Numbered(NamedTuple):
    """A record, and which it is in the file."""

    number: int
    record: Record


class Recording:
    """A recording to be read; `InputError` says what is wrong, and at which record or byte."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.whole_bytes = 0
        """How far the file is whole, once it has been read to the end."""
        self.is_cut_off = False
        self._lines = self._read_lines()
        first = next(self._lines, None)
        if first is None:
            raise InputError(f"{path}: expected a recording, which `moorage record` writes")
        self.header = self._header(first)

    def __iter__(self) -> Iterator[Numbered]:
        """The records after the first, once."""
        for number, line in enumerate(self._lines, 2):
            try:
                record = _RECORDS.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise self.wrong(number, f"expected a record: {error}") from None
            given = (record.object, record.deleted, record.complete, record.resumed)
            if sum(map(bool, given)) != 1:
                raise self.wrong(number, "expected one of object, deleted, complete and resumed")
            yield Numbered(number, record)

    def decode(self, one: Numbered) -> ApiObject:
        """The object of a record that has one."""
        try:
            kind = _KINDS.decode(one.record.object).kind
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self.wrong(one.number, f"object: expected an object: {error}") from None
        known = KINDS.get(kind)
        if known is None:
            raise self.wrong(one.number, f"object.kind: expected a kind of the API, got {kind!r}")
        try:
            return decode_json(known.struct, bytes(one.record.object), self.place(one.number))
        except UnicodeDecodeError as error:
            raise self.wrong(one.number, f"object: expected text in UTF-8: {error}") from None

    def place(self, number: int) -> str:
        """How messages call a record."""
        return f"{self.path}: record {number}"

    def wrong(self, number: int, what: str) -> InputError:
        """An error about a record."""
        return InputError(f"{self.place(number)}: {what}")

    def _header(self, line: bytes) -> RecordingHeader:
        try:
            header = _HEADERS.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self.wrong(1, f"expected the head of a recording: {error}") from None
        if (header.api_version, header.kind) != (API_VERSION, KIND):
            found = f"{header.api_version} {header.kind}"
            raise self.wrong(1, f"expected {API_VERSION} {KIND}, got {found}")
        return header

    def _read_lines(self) -> Iterator[bytes]:
        rest = b""
        try:
            with self.path.open("rb") as file:
                for content in self._members(file):
                    *lines, rest = (rest + content).split(b"\n")
                    yield from filter(None, lines)
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror or error}") from None
        if rest:
            yield rest

    def _members(self, file: BinaryIO) -> Iterator[bytes]:
        """The contents of the whole members."""
        waiting = b""
        while waiting or (waiting := file.read(_PIECE)):
            member, content = zlib.decompressobj(_GZIP), list[bytes]()
            begun = self.whole_bytes
            while waiting and not member.eof:
                try:
                    content.append(member.decompress(waiting))
                except zlib.error as error:
                    text = f"expected gzip, from byte {begun} on: {error}"
                    raise InputError(f"{self.path}: {text}") from None
                self.whole_bytes += len(waiting) - len(member.unused_data)
                waiting = member.unused_data or file.read(_PIECE)
            if not member.eof:
                self.whole_bytes, self.is_cut_off = begun, True
                return
            yield b"".join(content)


class RecordingWriter:
    """Appends to a recording; nobody else does meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        try:
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InputError(f"{path}: another `moorage record` writes this file") from None

    @property
    def size(self) -> int:
        """Of the file, in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def begin(self, header: RecordingHeader) -> None:
        """Write the first record."""
        self._add(header)

    def go_on(self, whole_bytes: int) -> None:
        """Append behind what is whole."""
        self._file.truncate(whole_bytes)

    def write(self, record: Record) -> None:
        """Append a record; it is in the file after the next `flush`."""
        self._add(record)

    def flush(self) -> None:
        """Have everything in the file."""
        if not self._lines:
            return
        member = gzip.compress(b"\n".join(self._lines) + b"\n", mtime=0)
        self._lines, self._waiting_bytes = [], 0
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.write(member)
            self._file.flush()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from None

    @property
    def is_full(self) -> bool:
        """Do so many records wait that they should be written?"""
        return self._waiting_bytes >= _FLUSHED_BYTES

    def close(self) -> None:
        """Write what is left; the file is another's to write."""
        try:
            self.flush()
        finally:
            self._file.close()

    def _add(self, record: RecordingHeader | Record) -> None:
        line = _encode(record)
        self._lines.append(line)
        self._waiting_bytes += len(line)
