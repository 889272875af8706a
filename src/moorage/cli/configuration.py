"""The `--config` argument: a KubeSchedulerConfiguration read from a file."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
    default_config,
    load_config,
)
from moorage.errors import ConfigError, InputError

if TYPE_CHECKING:
    from moorage.simulator.world import World


def add_config_argument(parser: argparse._ActionsContainer) -> None:
    """Let a command take a configuration."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1); "
        "without it, kube-scheduler's defaults",
    )


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


def make_world(
    configuration: KubeSchedulerConfiguration,
    path: Path | None,
    *,
    reuse: bool = True,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> "World":
    """An empty world; a configuration that names unknown plugins is noticed only here."""
    # Here, because whoever only takes the argument should not wait for all plugins.
    from moorage.kube.http_extender import http_extenders
    from moorage.simulator.world import World

    try:
        extenders = http_extenders(configuration)
        return World(configuration, reuse=reuse, gates=gates, extenders=extenders)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from error
