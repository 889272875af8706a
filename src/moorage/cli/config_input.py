"""Reading what `moorage config` works on: files, standard input, and ConfigMaps around either."""

import sys
from collections.abc import Mapping
from pathlib import Path

from moorage.config.documents import parse_document
from moorage.config.types import KIND
from moorage.errors import ConfigError, InputError

STDIN = "-"


def read_text(path: str) -> bytes:
    """A file's content; `-` is standard input."""
    if path == STDIN and sys.stdin is None:  # as Python has it where it is closed
        raise InputError("standard input is closed")
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{source_of(path)}: cannot be read: {error.strerror}") from error


def source_of(path: str) -> str:
    """What to call a file in messages."""
    return "standard input" if path == STDIN else path


def config_map_in(text: bytes) -> Mapping[str, object] | None:
    """The ConfigMap that a text describes; None if it describes anything else."""
    try:
        document, _ = parse_document(text)
    except ConfigError:
        return None
    if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
        return document
    return None


def read_configuration_text(path: str) -> tuple[bytes, str]:
    """The text of a configuration and what to call it, also out of a ConfigMap's manifest."""
    text, source = read_text(path), source_of(path)
    config_map = config_map_in(text)
    if config_map is None:
        return text, source
    data = config_map.get("data")
    values = data if isinstance(data, Mapping) else {}
    keys = [key for key, value in values.items() if isinstance(value, str) and KIND in value]
    if len(keys) != 1:
        raise InputError(
            f"{source}: expected a ConfigMap with one {KIND} under data, found {len(keys)}"
        )
    return values[keys[0]].encode("utf-8"), f"{source}: data[{keys[0]}]"
