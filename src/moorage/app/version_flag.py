"""`--version`: what it accepts and what it prints.

Owns the values and the output of kube-scheduler's version flag. `moorage scheduler` reports the
Kubernetes version whose decisions it makes, since that is what operators and tools compare.
"""

import platform

from moorage.config.feature_gates import BINARY_VERSION, parse_semantic
from moorage.config.field_errors import quoted
from moorage.errors import ConfigError
from moorage.version import KUBERNETES_VERSION, __version__

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def reported_version(flag: str) -> str:
    """The version that the process says to be."""
    return flag if flag.startswith("v") else KUBERNETES_VERSION


def printed_version(flag: str) -> str | None:
    """What `--version` prints before the process ends, or None where it goes on."""
    if flag == "true":
        return f"Kubernetes {KUBERNETES_VERSION}\n"
    if flag == "raw":
        return f"{_raw()}\n"
    return None


def checked_version(text: str) -> str:
    """A version to report; a `ValueError` says that it is not this one."""
    if text == KUBERNETES_VERSION:
        return text
    try:
        given = parse_semantic(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    if given != parse_semantic(KUBERNETES_VERSION):
        raise ValueError(
            f"version {quoted(text)} must match major/minor/patch of default version "
            f"{quoted(KUBERNETES_VERSION)}"
        )
    return text


def _raw() -> str:
    """The fields of upstream's version record; the compiler is the real one."""
    machine = platform.machine()
    fields = {
        "Major": str(BINARY_VERSION.major),
        "Minor": str(BINARY_VERSION.minor),
        "EmulationMajor": "",
        "EmulationMinor": "",
        "MinCompatibilityMajor": "",
        "MinCompatibilityMinor": "",
        "GitVersion": KUBERNETES_VERSION,
        "GitCommit": f"moorage-{__version__}",
        "GitTreeState": "clean",
        "BuildDate": "1970-01-01T00:00:00Z",
        "GoVersion": f"python{platform.python_version()}",
        "Compiler": platform.python_implementation().lower(),
        "Platform": f"{platform.system().lower()}/{_ARCHITECTURES.get(machine, machine)}",
    }
    shown = ", ".join(f"{name}:{quoted(value)}" for name, value in fields.items())
    return f"version.Info{{{shown}}}"
