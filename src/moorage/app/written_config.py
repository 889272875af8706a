"""The configuration that runs, as kube-scheduler logs it and writes it to a file.

Owns the YAML form and `--write-config-to`. What is shown of a profile is what its plugins were
built with: arguments of plugins that are not enabled are left out, the others sorted by name.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from moorage.config import KubeSchedulerConfiguration, encode_config, shown_config
from moorage.config.as_built import as_built
from moorage.errors import InputError
from moorage.log_fields import V, fields
from moorage.private_files import write_privately

log = logging.getLogger(__name__)

_SHOWN_FROM = 2
_STRING = "tag:yaml.org,2002:str"
_INDICATOR = "tag:yaml.org,2002:yaml"


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
