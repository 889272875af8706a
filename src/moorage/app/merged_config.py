"""From options to the configuration that runs: defaults or a document, flags laid over, checked.

Owns the precedence of flags and file, as kube-scheduler has it:

- without a document: the defaults, then the deprecated flags and those of leader election that
  were given;
- with one: the document, then the flags of leader election that were given, and only then
  validation. Deprecated flags are void, except `--pod-max-in-unschedulable-pods-duration`.

A document from a ConfigMap may leave the kubeconfig out; then the one that led to the ConfigMap
stays in use.

Owns the YAML of `--write-config-to` and of the log as well: it shows a profile as its plugins were
built. Arguments of plugins that are not enabled are left out, the others sorted by name. Must not
start anything.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from moorage.app.options import Options
from moorage.config import (
    KubeSchedulerConfiguration,
    default_config,
    encode_config,
    read_config,
    shown_config,
    validate_config,
)
from moorage.config.as_built import as_built
from moorage.config.feature_gates import BINARY_VERSION
from moorage.config.field_errors import aggregate
from moorage.config.gate_table import Stage
from moorage.errors import ConfigError, InputError
from moorage.http.options import header_warnings
from moorage.log_fields import V, fields
from moorage.private_files import write_privately

log = logging.getLogger(__name__)
_SHOWN_FROM = 2
_STRING = "tag:yaml.org,2002:str"
_INDICATOR = "tag:yaml.org,2002:yaml"


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a configuration and where it came from."""

    source: str
    text: bytes


def complete(options: Options, document: Document | None = None) -> KubeSchedulerConfiguration:
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
    return _defaults(options) if document is None else configuration(options, document)


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
        config = with_fields(config, "client_connection", {"kubeconfig": kubeconfig})
    return overlaid(options, config, document.source)


def overlaid(
    options: Options, config: KubeSchedulerConfiguration, source: str
) -> KubeSchedulerConfiguration:
    """A configuration that was read from somewhere, with the flags that win over it; valid."""
    config = with_fields(config, "leader_election", options.leader_election)
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
    config = with_fields(config, "client_connection", options.client_connection)
    return with_fields(config, "leader_election", options.leader_election)


def with_fields(
    config: KubeSchedulerConfiguration, part: str, changes: Mapping[str, Any]
) -> KubeSchedulerConfiguration:
    """A configuration with other values for some fields of one of its parts."""
    changed = msgspec.structs.replace(getattr(config, part), **changes)
    return msgspec.structs.replace(config, **{part: changed})


def config_yaml(config: KubeSchedulerConfiguration, *, unicode: bool = True) -> str:
    """A configuration in the form of a file; without `unicode` all of it is ASCII."""
    return _yaml(encode_config(config), unicode=unicode)


def _yaml(plain: dict[str, Any], *, unicode: bool = True) -> str:
    return yaml.dump(
        plain,
        Dumper=_Dumper,
        default_flow_style=False,
        sort_keys=True,
        allow_unicode=unicode,
        width=float("inf"),
    )


def log_or_write_config(
    config: KubeSchedulerConfiguration, path: str
) -> KubeSchedulerConfiguration:
    """Log the configuration at `-v=2`, write it to a file if there is a path, and hand it back.

    What comes back is also what `/configz` shows: with neither log nor file the profiles stay as
    they were configured, otherwise they are as built. After writing, the process is to end.
    """
    is_shown = log.isEnabledFor(V(_SHOWN_FROM))
    if not is_shown and not path:
        return config
    config = as_built(config)
    if is_shown:
        text = _yaml(shown_config(config))
        log.log(V(_SHOWN_FROM), "Using component config", extra=fields(config=text))
    if path:
        try:
            # It may hold the keys and passwords of extenders.
            write_privately(Path(path), config_yaml(config).encode())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"open {path}: {reason}") from None
        log.info("Wrote configuration", extra=fields(file=path))
    return config


class _Dumper(yaml.SafeDumper):
    """Quotes as Go's YAML package does, so that files can be compared line by line."""

    def ignore_aliases(self, data: Any) -> bool:
        """Equal values are written out each time."""
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        return dumper.represent_scalar(_STRING, text, style="|")
    resolve: Callable[..., str] = dumper.resolve
    looks_like = resolve(yaml.ScalarNode, text, (True, False))
    is_plain = looks_like in (_STRING, _INDICATOR)  # the emitter quotes indicators by itself
    return dumper.represent_scalar(_STRING, text, style=None if is_plain else '"')


def _float(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    if number.is_integer():
        return dumper.represent_int(int(number))
    return dumper.represent_float(number)


_Dumper.add_representer(str, _string)
_Dumper.add_representer(float, _float)
