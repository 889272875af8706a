"""Running plugin code: whatever it raises is reported with the plugin's name and the phase."""

from types import TracebackType

from moorage.errors import MoorageError, PluginError
from moorage.framework.plugin import Plugin


class guard:  # noqa: N801  # used as a statement, `with guard(plugin, "Filter"):`
    """Turn a surprise in a plugin into a `PluginError`."""

    __slots__ = ("_phase", "_plugin")

    def __init__(self, plugin: Plugin, phase: str) -> None:
        self._plugin = plugin
        self._phase = phase

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, trace
        if isinstance(error, Exception) and not isinstance(error, MoorageError):
            raise surprise(self._plugin, self._phase, error) from error


def surprise(plugin: Plugin, phase: str, error: Exception) -> PluginError:
    """What `guard` makes of an exception: for loops that every pod passes, as `try` costs less."""
    return PluginError(plugin.name, phase, f"{type(error).__name__}: {error}")
