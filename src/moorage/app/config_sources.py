"""Where the configuration comes from, so that it can be read again.

Owns the ways there are: a file, a ConfigMap, and a legacy policy from either or by the name of an
algorithm provider, with upstream's sentences for what goes wrong. Each source reads, and says what
to watch. `merged_config` lays the flags over the result, `reload` decides when to read again, and
`config.legacy_policy` looks into policies.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from moorage.app.merged_config import Document, configuration, overlaid, read_document
from moorage.app.options import ConfigMapKey, Options
from moorage.config import KubeSchedulerConfiguration
from moorage.config.field_errors import quoted
from moorage.config.legacy_policy import POLICY_CONFIG_MAP_KEY, parse_policy
from moorage.config.legacy_policy_conversion import (
    Conversion,
    convert_algorithm_provider,
    convert_policy,
)
from moorage.errors import ApiError, ConfigError
from moorage.kube.client import KubeClient
from moorage.kube.resources import resource_for

log = logging.getLogger(__name__)

Json = Mapping[str, Any]


def read_policy_file(path: str | Path) -> Mapping[str, object]:
    """The plain values of a policy file; a `ConfigError` says why there are none."""
    if not Path(path).exists():
        raise ConfigError(f"missing policy config file {path}")
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"couldn't read policy config: {path}: {error.strerror}") from error
    return parse_policy(text)


async def fetch_policy(client: KubeClient, namespace: str, name: str) -> Mapping[str, object]:
    """The plain values of the policy in a ConfigMap; a `ConfigError` says why there are none."""
    try:
        config_map = await client.get(resource_for("ConfigMap"), namespace, name)
    except ApiError as error:
        raise ConfigError(f"couldn't get policy config map {namespace}/{name}: {error}") from error
    return policy_of(config_map)


def policy_of(config_map: Mapping[str, object]) -> Mapping[str, object]:
    """The plain values of the policy that a ConfigMap object holds."""
    data = config_map.get("data")
    text = data.get(POLICY_CONFIG_MAP_KEY) if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        raise ConfigError(f"missing policy config map value at key {quoted(POLICY_CONFIG_MAP_KEY)}")
    return parse_policy(text)


class Source(Protocol):
    """A place to read a configuration from."""

    name: str
    """What it is called in messages."""
    file: str
    """The file to watch; empty if it is none."""
    config_map: ConfigMapKey | None
    """The ConfigMap to watch, if it is one."""

    async def load(self, client: KubeClient | None) -> KubeSchedulerConfiguration:
        """The configuration as it is now, checked; a `MoorageError` says what is wrong.

        `client` is needed for ConfigMaps only.
        """
        ...


class FileSource:
    """`--config`."""

    config_map: ConfigMapKey | None = None

    def __init__(self, options: Options) -> None:
        self.name = self.file = options.config_file
        self._options = options

    async def load(self, client: KubeClient | None) -> KubeSchedulerConfiguration:
        """Read the file."""
        del client
        return configuration(self._options, read_document(self.file))


class ConfigMapSource:
    """`--config-from-configmap`."""

    file = ""

    def __init__(self, options: Options, key: ConfigMapKey) -> None:
        self.config_map: ConfigMapKey | None = key
        self.name = f"ConfigMap {key.namespace}/{key.name}"
        self._key = key
        self._options = options

    async def load(self, client: KubeClient | None) -> KubeSchedulerConfiguration:
        """Fetch the ConfigMap."""
        config_map = await _fetch(client, self._key)
        key, text = _document_in(config_map.get("data") or {}, self._key.key, self.name)
        return configuration(self._options, Document(f"{self.name}, key {key}", text.encode()))


class PolicySource:
    """`--legacy-policy-config-file`, `--legacy-policy-configmap`, `--legacy-algorithm-provider`."""

    def __init__(self, options: Options) -> None:
        own = options.moorage
        self.file = own.legacy_policy_config_file
        self.config_map = ConfigMapKey.parse(own.legacy_policy_configmap)
        self._provider = own.legacy_algorithm_provider
        self._options = options
        if self.config_map is not None:
            self.name = f"ConfigMap {self.config_map.namespace}/{self.config_map.name}"
        else:
            self.name = self.file or f"algorithm provider {self._provider}"

    async def load(self, client: KubeClient | None) -> KubeSchedulerConfiguration:
        """Read the policy and convert it."""
        try:
            conversion = await self._convert(client)
            conversion.check()
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from error
        for dropped in conversion.dropped:
            log.warning("%s: %s", self.name, dropped)
        config = _connected(self._options, conversion.config)
        return overlaid(self._options, config, self.name)

    async def _convert(self, client: KubeClient | None) -> Conversion:
        gates = self._options.gates
        if self._provider:
            return convert_algorithm_provider(self._provider, gates=gates)
        if self.config_map is None:
            return convert_policy(read_policy_file(self.file), gates=gates)
        config_map = await _fetch(client, self.config_map)
        return convert_policy(policy_of(config_map), gates=gates)


def source_of(options: Options) -> Source | None:
    """Where the options say the configuration is; None for the defaults and flags alone."""
    own = options.moorage
    if options.config_file:
        return FileSource(options)
    key = ConfigMapKey.parse(own.config_from_configmap)
    if key is not None:
        return ConfigMapSource(options, key)
    if own.legacy_policy_config_file or own.legacy_policy_configmap:
        return PolicySource(options)
    return PolicySource(options) if own.legacy_algorithm_provider else None


def _connected(options: Options, config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """A policy says nothing of the way to the API server: the flags do."""
    connection = msgspec.structs.replace(config.client_connection, **options.client_connection)
    return msgspec.structs.replace(config, client_connection=connection)


async def _fetch(client: KubeClient | None, key: ConfigMapKey) -> Json:
    assert client is not None, "a ConfigMap is fetched with a client"
    try:
        return await client.get(resource_for("ConfigMap"), key.namespace, key.name)
    except ApiError as error:
        raise ConfigError(f"ConfigMap {key.namespace}/{key.name}: {error}") from error


def _document_in(data: Json, key: str, name: str) -> tuple[str, str]:
    """The entry of a ConfigMap's data that holds the configuration."""
    if not key:
        if len(data) != 1:
            keys = ", ".join(sorted(data)) or "none"
            raise ConfigError(f"{name}: name the key that holds the configuration (has: {keys})")
        key = next(iter(data))
    text = data.get(key)
    if not isinstance(text, str):
        raise ConfigError(f"{name}: there is no key {key}")
    return key, text
