"""Golden cases: one cluster, one pending pod, and what the real kube-scheduler decided.

Owns finding and reading the files (`<family>.jsonl` or `.jsonl.gz`, one case per line). Must not
judge a case: `replay` runs it and `comparison` compares.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from moorage.errors import InputError
from moorage.model.meta import Json

SUFFIXES = (".jsonl", ".jsonl.gz")


class GoldenCase(msgspec.Struct, frozen=True):
    """One recorded decision."""

    name: str
    objects: list[msgspec.Raw]
    pod: msgspec.Raw
    expect: Json
    config: Json | None = None
    kubernetes: str = ""

    @property
    def family(self) -> str:
        """What the case exercises: its name without the number."""
        return self.name.rpartition("-")[0] or self.name


class GoldenLine(msgspec.Struct, frozen=True):
    """A case as it stands in a file; cheap to hand to another process."""

    source: str
    """`file:line`, for messages."""
    text: bytes

    def decode(self) -> GoldenCase:
        """Read the case."""
        try:
            return _DECODER.decode(self.text)
        except msgspec.MsgspecError as error:
            raise InputError(f"{self.source}: not a golden case: {error}") from error


_DECODER = msgspec.json.Decoder(GoldenCase)


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The golden files at some paths: files as they are, folders searched for them."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name.endswith(SUFFIXES))
            if not inside:
                raise InputError(f"{path}: no golden files (.jsonl, .jsonl.gz) in this folder")
            found += inside
        elif not path.exists():
            raise InputError(f"{path}: no such file or folder")
        elif not path.name.endswith(SUFFIXES):
            raise InputError(f"{path}: not a golden file (.jsonl or .jsonl.gz)")
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def read_lines(path: Path) -> Iterator[GoldenLine]:
    """The cases of one file, undecoded."""
    open_file = gzip.open if path.name.endswith(".gz") else open
    try:
        with open_file(path, "rb") as lines:
            for number, text in enumerate(lines, 1):
                if text.strip():
                    yield GoldenLine(f"{path}:{number}", text)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}") from error
