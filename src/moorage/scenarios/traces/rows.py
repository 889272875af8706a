"""Tables of traces, row by row: CSV, perhaps compressed, or SQLite.

Owns what is said of a table that cannot be read or of a value that is wrong: file, line, column,
and what was expected.
"""

import csv
import gzip
import math
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

from moorage.errors import InputError

_MOST_DIGITS = 19
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

    def share(self, column: str, missing: str | None = None) -> float:
        """A number that is not negative."""
        found = self.number(column, missing)
        if found < 0:
            self.refuse(column, f"expected no less than 0, got {found}")
        return found

    def choice(self, column: str, choices: Sequence[str]) -> str:
        """One of some words, or its place among them."""
        value = self.text(column)
        if value.isdecimal() and len(value) <= _MOST_DIGITS and int(value) < len(choices):
            return choices[int(value)]
        if value not in choices:
            what = f"expected one of {', '.join(choices)} or its number"
            self.refuse(column, f"{what}, got {value[:_MOST_SHOWN]!r}")
        return value

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
            names = [name for name in columns if (reader.fieldnames or ()).count(name) > 1]
            if names:
                raise InputError(f"{path}:1: expected the column {names[0]} once")
            for values in reader:
                line = reader.line_num
                if None in values:
                    found = len(reader.fieldnames or ())
                    raise InputError(f"{path}:{line}: expected {found} values, got more")
                yield Row(f"{path}:{line}", values)
    except csv.Error as error:
        raise InputError(f"{path}:{line + 1}: expected CSV: {error}") from None
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected text in UTF-8") from None


def is_sqlite(path: Path) -> bool:
    """Is it, by its name, a SQLite file?"""
    return path.suffix in (".sqlite", ".db")


def sqlite_rows(path: Path, table: str, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a table of a SQLite file, those columns of it."""
    wanted = ", ".join(f'"{column}"' for column in columns)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            names = {row[1] for row in base.execute(f'PRAGMA table_info("{table}")')}
            missing = [column for column in columns if column not in names]
            if missing:
                raise InputError(f"{path}: table {table}: expected the column {missing[0]}")
            rows = base.execute(f'SELECT {wanted} FROM "{table}"')
            for number, values in enumerate(rows, 1):
                texts = {
                    name: str(v) for name, v in zip(columns, values, strict=True) if v is not None
                }
                yield Row(f"{path}: table {table}, row {number}", texts)
    except sqlite3.Error as error:
        raise InputError(f"{path}: {error}") from None


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
