"""Every exception that Moorage raises on purpose.

    MoorageError
    ├── InputError          a file or object a person wrote is wrong; shown as one sentence, exit 1
    │   ├── DecodeError     an API object cannot be read (names the object and the field)
    │   └── ConfigError     a KubeSchedulerConfiguration cannot be used (names the field path)
    ├── StateError          an event contradicts the cluster state (a pod assumed twice, ...)
    └── PluginError         a plugin raised or answered nonsense (names plugin, pod and phase)

A pod that fits nowhere is *not* an error: that is a value (`framework.diagnosis`).
"""


class MoorageError(Exception):
    """Base of the tree; catching it catches everything Moorage raises on purpose."""


class InputError(MoorageError):
    """Something a person wrote is wrong; the message is one sentence that says what and where."""


class DecodeError(InputError):
    """An API object cannot be decoded."""


class ConfigError(InputError):
    """A scheduler configuration cannot be used."""


class StateError(MoorageError):
    """An event contradicts the cluster state."""


class PluginError(MoorageError):
    """A plugin failed; wraps the original exception as `__cause__`."""

    def __init__(self, plugin: str, phase: str, detail: str) -> None:
        super().__init__(f'running {phase} plugin "{plugin}": {detail}')
        self.plugin = plugin
        self.phase = phase
