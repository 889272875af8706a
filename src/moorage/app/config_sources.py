"""Where the configuration comes from, so that it can be read again.

Owns the ways there are: a file, a ConfigMap, and a legacy policy from either or by the name of an
algorithm provider, with upstream's sentences for what goes wrong. Each source reads, and says what
to watch. `merged_config` lays the flags over the result, `reload` decides when to read again, and
`config.legacy_policy` looks into policies.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.app.merged_config import (
    Document,
    configuration,
    overlaid,
    read_document,
    with_fields,
)
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


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A place to read a configuration from."""

    name: str
    """What it is called in messages."""
    load: Callable[[KubeClient | None], Awaitable[KubeSchedulerConfiguration]]
    """The configuration as it is now, checked; a `MoorageError` says what is wrong.

    The client is needed for ConfigMaps only.
    """
    file: str = ""
    """The file to watch; empty if it is none."""
    config_map: ConfigMapKey | None = None
    """The ConfigMap to watch, if it is one."""


def source_of(options: Options) -> ConfigSource | None:
    """Where the options say the configuration is; None for the defaults and flags alone."""
    own = options.moorage
    if options.config_file:
        return _file_source(options)
    key = ConfigMapKey.parse(own.config_from_configmap)
    if key is not None:
        return _config_map_source(options, key)
    legacy = (
        own.legacy_policy_config_file
        or own.legacy_policy_configmap
        or own.legacy_algorithm_provider
    )
    return _policy_source(options) if legacy else None


def _file_source(options: Options) -> ConfigSource:
    """`--config`."""

    async def load(client: KubeClient | None) -> KubeSchedulerConfiguration:
        del client
        return configuration(options, read_document(options.config_file))

    return ConfigSource(options.config_file, load, file=options.config_file)


def _config_map_source(options: Options, key: ConfigMapKey) -> ConfigSource:
    """`--config-from-configmap`."""
    name = f"ConfigMap {key.namespace}/{key.name}"

    async def load(client: KubeClient | None) -> KubeSchedulerConfiguration:
        config_map = await _fetch(client, key)
        entry, text = _document_in(config_map.get("data") or {}, key.key, name)
        return configuration(options, Document(f"{name}, key {entry}", text.encode()))

    return ConfigSource(name, load, config_map=key)


def _policy_source(options: Options) -> ConfigSource:
    """`--legacy-policy-config-file`, `--legacy-policy-configmap`, `--legacy-algorithm-provider`."""
    own, gates = options.moorage, options.gates
    file, provider = own.legacy_policy_config_file, own.legacy_algorithm_provider
    key = ConfigMapKey.parse(own.legacy_policy_configmap)
    name = file or f"algorithm provider {provider}"
    if key is not None:
        name = f"ConfigMap {key.namespace}/{key.name}"

    async def convert(client: KubeClient | None) -> Conversion:
        if provider:
            return convert_algorithm_provider(provider, gates=gates)
        if key is None:
            return convert_policy(read_policy_file(file), gates=gates)
        return convert_policy(policy_of(await _fetch(client, key)), gates=gates)

    async def load(client: KubeClient | None) -> KubeSchedulerConfiguration:
        try:
            conversion = await convert(client)
            conversion.check()
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error
        for dropped in conversion.dropped:
            log.warning("%s: %s", name, dropped)
        # A policy says nothing of the way to the API server: the flags do.
        config = with_fields(conversion.config, "client_connection", options.client_connection)
        return overlaid(options, config, name)

    return ConfigSource(name, load, file=file, config_map=key)


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
