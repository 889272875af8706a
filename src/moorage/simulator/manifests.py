"""A cluster read from manifests: files, directories or standard input.

Owns the way from paths to objects that look as if an API server had stored them: read, decoded,
checked, named and defaulted. Whatever is wrong is one sentence naming the file and the document.
Must not interpret objects any further; `world` puts them together.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

import msgspec

from moorage.errors import DecodeError, InputError
from moorage.model.checks import check_object
from moorage.model.decode import UnknownKind, decode_object, describe, sentence
from moorage.model.defaulting import Classes, with_defaults, with_names
from moorage.model.meta import ApiObject
from moorage.simulator.documents import parse_documents
from moorage.simulator.workloads import expand_workloads

T = TypeVar("T", bound=ApiObject)

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml", ".json")
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")


class Manifests(msgspec.Struct, frozen=True):
    """Objects in reading order, and how many were of a kind that the model has no type for.

    Those are in `others` as they are written, with their places.
    """

    objects: tuple[ApiObject, ...] = ()
    skipped: dict[str, int] = {}
    others: tuple[tuple[Mapping[str, Any], str], ...] = ()

    def of(self, struct: type[T]) -> tuple[T, ...]:
        """The objects of one type."""
        return tuple(obj for obj in self.objects if isinstance(obj, struct))


class _Placed(NamedTuple):
    obj: ApiObject
    where: str


def load_manifests(paths: Sequence[str], stdin: TextIO | None) -> Manifests:
    """Read every object of the given files and directories; `-` stands for `stdin`.

    Workloads are taken apart into the pods that they would have.
    """
    placed: list[_Placed] = []
    skipped: dict[str, int] = {}
    others: list[tuple[Mapping[str, Any], str]] = []
    for data, where in expand_workloads(list(read_documents(paths, stdin))):
        obj = decode_object(data, where)
        if isinstance(obj, UnknownKind):
            skipped[obj.kind] = skipped.get(obj.kind, 0) + 1
            others.append((data, where))
            continue
        check_object(obj, where)
        placed.append(_Placed(obj, where))
    _refuse_doubles(placed)
    named = with_names([item.obj for item in placed])
    classes = Classes.among(named)
    complete = [
        with_defaults(obj, classes, item.where) for obj, item in zip(named, placed, strict=True)
    ]
    return Manifests(tuple(complete), skipped, tuple(others))


def read_documents(
    paths: Sequence[str], stdin: TextIO | None
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every object of the given files and directories as it is written, with its place."""
    for path in paths:
        for name, text in _texts(path, stdin):
            yield from _members(name, text)


def _texts(path: str, stdin: TextIO | None) -> Iterator[tuple[str, str]]:
    if path == STANDARD_INPUT:
        yield "standard input", _read_all(stdin)
    elif not path:
        raise InputError("a file name is empty: expected a file, a directory or - (standard input)")
    elif _is_directory(path):
        for file in _manifest_files(Path(path)):
            yield str(file), _read(file)
    else:
        yield path, _read(Path(path))


def _read_all(stdin: TextIO | None) -> str:
    if stdin is None:  # as Python has it where it is closed
        raise InputError("standard input is closed")
    try:
        # Its own decoding goes by the locale, and may let bytes pass that are no text.
        binary = getattr(stdin, "buffer", None)
        return stdin.read() if binary is None else binary.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror}") from None


def _is_directory(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _manifest_files(directory: Path) -> list[Path]:
    """Manifests below a directory, sorted by path; hidden files and directories are left out."""

    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None

    found: list[Path] = []
    for base, directories, files in os.walk(directory, onerror=fail):
        directories[:] = [name for name in directories if not name.startswith(".")]
        found += [
            Path(base, name)
            for name in files
            if name.endswith(SUFFIXES) and not name.startswith(".")
        ]
    if not found:
        raise InputError(f"{directory} holds no file that ends in {', '.join(SUFFIXES)}")
    return sorted(found)


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file or directory") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None


def _members(name: str, text: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every object of a file with its place; lists are taken apart, empty documents left out."""
    documents = parse_documents(text, name, is_json=name.endswith(JSON_SUFFIXES))
    for number, document in enumerate(documents, start=1):
        where = name if len(documents) == 1 else f"{name}, document {number}"
        if document is not None:
            yield from _flattened(document, where)


def _flattened(document: Any, where: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    if not isinstance(document, dict):
        what = "list" if isinstance(document, list) else "single value"
        text = f"an object is a mapping with apiVersion and kind, not a {what}"
        raise DecodeError(sentence(where, text))
    kind = document.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in document:
        yield document, where
        return
    items = document["items"] or []
    if not isinstance(items, list):
        raise DecodeError(sentence(where, f"items of {kind} must be a list"))
    # Members of a typed list (PodList) do not repeat their kind.
    common = {}
    if kind != "List":
        common = {"kind": kind.removesuffix("List"), "apiVersion": document.get("apiVersion")}
    for number, item in enumerate(items, start=1):
        at = f"{where}, item {number}"
        yield from _flattened({**common, **item} if isinstance(item, dict) else item, at)


def _refuse_doubles(placed: Sequence[_Placed]) -> None:
    places: dict[tuple[type, str, str], str] = {}
    uids: dict[str, tuple[str, str]] = {}
    for obj, where in placed:
        subject = describe(obj.kind, obj.namespace, obj.name or obj.metadata.generate_name)
        identity = (type(obj), obj.namespace, obj.name)
        if obj.name and identity in places:
            raise DecodeError(f"{where}: {subject} is given twice, first in {places[identity]}")
        places[identity] = where
        uid = obj.metadata.uid
        if uid and uid in uids:
            other, first = uids[uid]
            text = f'metadata.uid: "{uid}" is that of {other} in {first}'
            raise DecodeError(f"{where}: {subject}: {text}")
        uids[uid] = subject, where
