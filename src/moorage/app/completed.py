"""From options to the configuration that runs: defaults or a document, flags laid over, checked.

Owns the precedence of flags and file, as kube-scheduler has it:

- without a document: the defaults, then the deprecated flags and those of leader election that
  were given;
- with one: the document, then the flags of leader election that were given, and only then
  validation. Deprecated flags are void, except `--pod-max-in-unschedulable-pods-duration`.

A document from a ConfigMap may leave the kubeconfig out; then the one that led to the ConfigMap
stays in use. Must not start anything.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from moorage.app.option_errors import header_warnings
from moorage.app.options import Options
from moorage.config import (
    FeatureGates,
    KubeSchedulerConfiguration,
    default_config,
    read_config,
    validate_config,
)
from moorage.config.effective_version import BINARY_VERSION
from moorage.config.field_errors import aggregate
from moorage.config.gate_table import Stage
from moorage.errors import ConfigError, InputError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a configuration and where it came from."""

    source: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Completed:
    """What a process runs with."""

    config: KubeSchedulerConfiguration
    gates: FeatureGates
    options: Options
    flag_values: Mapping[str, str]


def complete(options: Options, document: Document | None = None) -> Completed:
    """Check the options and make the configuration; an `InputError` lists what is wrong.

    `document` is what the caller fetched from elsewhere (a ConfigMap); otherwise `--config` is
    read, if it was given.
    """
    for warning in _warnings(options):
        log.warning("%s", warning)
    if errors := options.validate():
        raise ConfigError(aggregate(errors))
    if document is None and options.config_file:
        document = read_document(options.config_file)
    config = _defaults(options) if document is None else configuration(options, document)
    return Completed(config, options.gates, options, options.flag_values)


def read_document(path: str) -> Document:
    """The text of a file."""
    try:
        return Document(path, Path(path).read_bytes())
    except IsADirectoryError:
        raise InputError(f"read {path}: is a directory") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"open {path}: {reason}") from None


def configuration(options: Options, document: Document) -> KubeSchedulerConfiguration:
    """The configuration of a document with the flags laid over it, valid."""
    config = read_config(document.text, document.source, options.gates)
    if options.moorage.config_from_configmap and not config.client_connection.kubeconfig:
        kubeconfig = options.client_connection.get("kubeconfig", "")
        config = _with(config, "client_connection", {"kubeconfig": kubeconfig})
    return overlaid(options, config, document.source)


def overlaid(
    options: Options, config: KubeSchedulerConfiguration, source: str
) -> KubeSchedulerConfiguration:
    """A configuration that was read from somewhere, with the flags that win over it; valid."""
    config = _with(config, "leader_election", options.leader_election)
    validate_config(config, source, options.gates)
    return config


def _warnings(options: Options) -> list[str]:
    warnings = header_warnings(options.authentication.request_header)
    if options.gates.version.emulation < BINARY_VERSION:
        known = options.gates.known()
        alpha = [item.name for item in known if item.stage is Stage.ALPHA and item.enabled]
        if alpha:
            warnings.append(
                "component has alpha features enabled in emulated version, this is unsupported: "
                f"features=[{' '.join(alpha)}]"
            )
    return warnings


def _defaults(options: Options) -> KubeSchedulerConfiguration:
    config = msgspec.structs.replace(default_config(options.gates), **options.profiling)
    config = _with(config, "client_connection", options.client_connection)
    return _with(config, "leader_election", options.leader_election)


def _with(
    config: KubeSchedulerConfiguration, part: str, changes: Mapping[str, Any]
) -> KubeSchedulerConfiguration:
    changed = msgspec.structs.replace(getattr(config, part), **changes)
    return msgspec.structs.replace(config, **{part: changed})
