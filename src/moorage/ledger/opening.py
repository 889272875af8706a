"""Reading a ledger from disk: one file, or a directory of them.

What can be read is read; what cannot is told in `problems`, a sentence for each file.
"""

from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import TypeVar

import msgspec

from moorage.errors import InputError
from moorage.ledger.files import Place, Scanned, ledger_files, scan
from moorage.ledger.reading import Entry, Reader
from moorage.ledger.records import Blob, Chunk, mentions

T = TypeVar("T")


class FileEntry:
    """A chunk in a file."""

    __slots__ = ("_place", "_scanned")

    def __init__(self, scanned: Scanned, place: Place) -> None:
        self._scanned = scanned
        self._place = place

    @property
    def path(self) -> Path:
        """The file."""
        return self._scanned.path

    @property
    def first(self) -> int:
        """The number of its first decision."""
        return self._place.first

    @property
    def count(self) -> int:
        """How many decisions it has."""
        return self._place.count

    def mentions(self, pod: str) -> bool:
        """May it have a decision about a pod?"""
        return mentions(self._place.hashes, pod)

    def chunk(self) -> Chunk:
        """The chunk itself."""
        return self._read(self._place.offset, self._place.length, Chunk)

    def blob(self, number: int) -> Blob:
        """A blob that belongs to it."""
        if number not in self._scanned.blobs:
            raise ValueError(f"blob {number} is missing")
        return self._read(*self._scanned.blobs[number], Blob)

    def _read(self, offset: int, length: int, kind: type[T]) -> T:
        try:
            with self._scanned.path.open("rb") as file:
                file.seek(offset)
                return msgspec.msgpack.decode(file.read(length), type=kind)
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            raise ValueError(str(error)) from error


class LedgerFilesReader(Reader):
    """The decisions in some files."""

    def __init__(self, scanned: Sequence[Scanned], problems: Sequence[str]) -> None:
        super().__init__()
        self.problems = tuple(problems)
        found = [FileEntry(one, place) for one in scanned for place in one.chunks]
        self._entries = sorted(found, key=lambda entry: entry.first)

    def entries(self) -> Sequence[Entry]:
        """The chunks."""
        return self._entries

    def _entry_of(self, number: int) -> Entry:
        files = [e.path for e in self._entries if e.first <= number < e.first + e.count]
        if len(files) > 1:
            raise InputError(
                f"There are {len(files)} decisions {number}, in {files[0]} and in {files[1]}: "
                "more than one scheduler wrote here, so ask one of the files."
            )
        return super()._entry_of(number)


def open_ledger(path: Path | str) -> Reader:
    """Read a ledger; `InputError` if there is none, or none that can be read."""
    path = Path(path)
    # `Path.exists` and `Path.is_dir` raise for some of what is wrong and say no to the rest.
    try:
        files = ledger_files(path) if S_ISDIR(path.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: there is no such file or directory.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if files is None:
        scanned = scan(path)
        return LedgerFilesReader([scanned], [scanned.problem] if scanned.problem else [])
    if not files:
        raise InputError(f"{path} holds no ledger: there is no file decisions-*.ledger in it.")
    read: list[Scanned] = []
    problems: list[str] = []
    for file in files:
        try:
            read.append(scan(file))
        except InputError as error:
            problems.append(str(error))
    if not read:
        raise InputError(problems[0])
    problems += [one.problem for one in read if one.problem]
    return LedgerFilesReader(read, problems)
