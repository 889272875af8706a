"""Tables of traces, row by row: CSV, perhaps compressed.

Owns what is said of a table that cannot be read or of a value that is wrong: file, line, column,
and what was expected.
"""

import csv
import gzip
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

from moorage.errors import InputError

_MOST_DIGITS = 18
_MOST_SHOWN = 40
_LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


class Row(NamedTuple):
    """A row of a table."""

    place: str
    values: Mapping[str, str]

    def text(self, column: str, missing: str | None = None) -> str:
        """A value; it may be absent only if something stands for it."""
        value = self.values.get(column) or missing
        if value is None:
            self.refuse(column, "expected a value, got nothing")
        return value

    def amount(self, column: str, missing: str | None = None) -> int:
        """A whole number that is not negative."""
        value = self.text(column, missing)
        if not value.isdecimal() or len(value) > _MOST_DIGITS:
            self.refuse(column, f"expected a whole number, got {value[:_MOST_SHOWN]!r}")
        return int(value)

    def number(self, column: str, missing: str | None = None) -> float:
        """A number."""
        value = self.text(column, missing)
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            self.refuse(column, f"expected a number, got {value[:_MOST_SHOWN]!r}")
        return found

    def name(self, column: str) -> str:
        """A name that Kubernetes takes."""
        value = self.text(column)
        if len(value) > _LONGEST_NAME or _NAME.fullmatch(value) is None:
            self.refuse(
                column, f"expected a name of a-z, 0-9, - and ., got {value[:_MOST_SHOWN]!r}"
            )
        return value

    def refuse(self, column: str, what: str) -> NoReturn:
        """Say what is wrong with a value."""
        raise InputError(f"{self.place}: {column}: {what}")


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a CSV file that has at least these columns."""
    line = 0
    try:
        with open_text(path) as stream:
            reader = csv.DictReader(stream, strict=True)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path}:1: expected the column {missing[0]}")
            for values in reader:
                line = reader.line_num
                yield Row(f"{path}:{line}", values)
    except csv.Error as error:
        raise InputError(f"{path}:{line + 1}: expected CSV: {error}") from None
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected text in UTF-8") from None


def open_text(path: Path) -> TextIO:
    """A text file; it is compressed if its name ends in `.gz`."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def read_text(path: Path) -> str:
    """The whole of a text file."""
    try:
        with open_text(path) as stream:
            return stream.read()
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected text in UTF-8") from None


def _reason(error: Exception) -> object:
    return error.strerror if isinstance(error, OSError) and error.strerror else error
