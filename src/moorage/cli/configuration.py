"""KubeSchedulerConfigurations out of files, standard input and ConfigMaps; `--config`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
    default_config,
    load_config,
)
from moorage.config.documents import parse_document
from moorage.config.types import KIND
from moorage.errors import ConfigError, InputError

if TYPE_CHECKING:
    from moorage.framework.pacing import PluginCalls
    from moorage.simulator.world import World

STDIN = "-"


def read_configuration(
    path: Path | None, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> KubeSchedulerConfiguration:
    """The configuration of a file, or the default one."""
    if path is None:
        return default_config(gates)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return load_config(text, str(path), gates)


def read_gates(text: str) -> FeatureGates:
    """The features of `--feature-gates A=true,B=false`."""
    if not text:
        return DEFAULT_FEATURE_GATES
    try:
        return FeatureGates.parse(text)
    except ConfigError as error:
        raise ConfigError(f"--feature-gates: {error}") from None


def make_world(
    configuration: KubeSchedulerConfiguration,
    path: Path | None,
    *,
    reuse: bool = True,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    plugins: Sequence[str] = (),
) -> "World":
    """An empty world; a configuration that names unknown plugins is noticed only here."""
    # Here, because whoever only takes the argument should not wait for all plugins.
    from moorage.kube.http_extender import http_extenders
    from moorage.simulator.world import World, full_registry

    registry = full_registry(files=plugins)
    try:
        extenders = http_extenders(configuration)
        return World(
            configuration, registry=registry, reuse=reuse, gates=gates, extenders=extenders
        )
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from error


@contextmanager
def calls_ended_in_time(calls: "PluginCalls") -> Iterator[None]:
    """Meanwhile a call of a plugin that does not return is ended, as in a live scheduler."""
    from moorage.kube.call_watch import CallWatch

    watch = CallWatch(calls)
    watch.start(None)
    try:
        yield
    finally:
        watch.stop()


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
