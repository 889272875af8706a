"""Ledger files with damage that checksums do not show: read, or refused in one sentence."""

import struct
import tempfile
import zlib
from pathlib import Path
from random import Random

import msgspec

from fuzz.mutations import mutate_bytes, mutate_json
from fuzz.target import PropertyError, Target
from ledger.made import written
from moorage.errors import InputError
from moorage.ledger import open_ledger

_HEADER = 16
_RECORD = struct.Struct("<BII")


class Ledger(Target):
    """Reading and explaining."""

    name = "ledger"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="moorage-fuzz-"))
        self._path = self._folder / "decisions-000000000001.ledger"
        self._good: list[bytes] = []

    def prepare(self, random: Random) -> None:
        """Files with a few decisions."""
        del random
        for number, (decisions, chunks) in enumerate(((2, 1), (3, 2))):
            self._good.append(written(self._folder / str(number), decisions, chunks))

    def make(self, random: Random) -> bytes:
        """Damaged bytes, or sound records with damaged contents."""
        good = random.choice(self._good)
        if random.random() < 0.2:
            return mutate_bytes(good, random, self._good)
        records = list(_records(good))
        at = random.randrange(len(records))
        kind, payload = records[at]
        records[at] = (kind, _damaged(payload, random))
        return good[:_HEADER] + b"".join(_framed(*record) for record in records)

    def check(self, data: bytes) -> None:
        """Everything that can be asked of it."""
        self._path.write_bytes(data)
        try:
            reader = open_ledger(self._path)
        except InputError as error:
            _one_sentence(str(error))
            return
        for problem in reader.problems:
            _one_sentence(problem)
        numbers = [1, 2, 3, 6]
        try:
            numbers += [one.number for one in reader.summaries(limit=10)]
        except InputError as error:
            _one_sentence(str(error))
        for number in dict.fromkeys(numbers):
            try:
                reader.explain(number, matrix=(0, 3))
            except InputError as error:
                _one_sentence(str(error))
        for pod in ("default/pod-1", "x"):
            try:
                reader.latest_about(pod)
            except InputError as error:
                _one_sentence(str(error))
        try:
            reader.last_moment()
        except InputError as error:
            _one_sentence(str(error))


def _records(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], _HEADER
    while at < len(data):
        kind, length, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        found.append((kind, data[at : at + length]))
        at += length
    return found


def _framed(kind: int, payload: bytes) -> bytes:
    checksum = zlib.crc32(payload, zlib.crc32(struct.pack("<BI", kind, len(payload))))
    return _RECORD.pack(kind, len(payload), checksum) + payload


def _damaged(payload: bytes, random: Random) -> bytes:
    if random.random() < 0.4:
        return mutate_bytes(payload, random)
    try:
        value = msgspec.msgpack.decode(payload)
        changed = mutate_json(_unpacked(value), random)
        return msgspec.msgpack.encode(_packed(changed, random))
    except (msgspec.MsgspecError, TypeError, OverflowError, UnicodeEncodeError, ValueError):
        return mutate_bytes(payload, random)


def _unpacked(value: object) -> object:
    """With what is packed inside opened too, so that it can be damaged there."""
    if isinstance(value, bytes):
        try:
            return {"\0zlib": _unpacked(msgspec.msgpack.decode(zlib.decompress(value)))}
        except (zlib.error, msgspec.MsgspecError, ValueError):
            return value
    if isinstance(value, dict):
        return {str(key): _unpacked(item) for key, item in value.items()}
    return [_unpacked(item) for item in value] if isinstance(value, list | tuple) else value


def _packed(value: object, random: Random) -> object:
    if isinstance(value, dict):
        if set(value) == {"\0zlib"}:
            return zlib.compress(msgspec.msgpack.encode(_packed(value["\0zlib"], random)))
        return {key: _packed(item, random) for key, item in value.items()}
    if isinstance(value, list):
        return [_packed(item, random) for item in value]
    if isinstance(value, bytes) and random.random() < 0.1:
        return mutate_bytes(value, random)
    return value


def _one_sentence(text: str) -> None:
    if not text or "\n" in text.strip():
        raise PropertyError(f"not one sentence: {text[:200]!r}")


TARGET = Ledger
