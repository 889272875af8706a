"""Where a legacy scheduling policy comes from: a file, or a ConfigMap of the cluster.

Owns the reading and upstream's words for what goes wrong with it. Must not look into the policy:
that is `config.legacy_policy`'s.
"""

from collections.abc import Mapping
from pathlib import Path

from moorage.config.field_errors import quoted
from moorage.config.legacy_policy import POLICY_CONFIG_MAP_KEY, parse_policy
from moorage.errors import ApiError, ConfigError
from moorage.kube.client import KubeClient
from moorage.kube.resources import resource_for


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
