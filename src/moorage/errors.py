"""The exceptions that several packages meet; those of one package are in its own `errors.py`.

    MoorageError
    ├── InputError          a file or object a person wrote is wrong; shown as one sentence, exit 1
    │   ├── DecodeError     an API object cannot be read (names the object and the field)
    │   ├── ConfigError     a KubeSchedulerConfiguration cannot be used (names the field path)
    │   └── KubeconfigError access to a cluster is described wrongly (names the file and the entry)
    ├── ApiError            the API server refused a request (status, reason, message)
    │   └── UnreachableError  no answer: nobody listens, the connection broke, time ran out
    ├── ProcessError        a process that was started to be measured ended, or does not answer
    ├── NotNeededError      a request was not sent: what it asks for has happened already
    ├── AuthorizationFailedError, BadParameterError, UnknownObjectError, NotReadyError
    │                       a question at the port cannot be answered
    ├── StateError          an event contradicts the cluster state (a pod assumed twice, ...)
    │   └── CorruptStateError  ... so badly that only a restart helps
    ├── StrayError          a plugin raised what ends a process or a task where nobody catches it
    └── PluginError         a plugin raised or answered nonsense (names plugin, pod and phase)
        └── ExtenderError   an extender failed, in its own words or in those of the transport

What is always caught before a person sees it stands outside: FlagError, UnauthenticatedError,
ConnectError, BrokenError, WireError, AbandonedError, FollowerTooSlowError, SelectorError,
TranslationError, CallTimedOutError.

A pod that fits nowhere is *not* an error: that is a value (`framework.diagnosis`).
"""

from collections.abc import Callable


class MoorageError(Exception):
    """Base of the tree; catching it catches everything that is told to a person."""


class InputError(MoorageError):
    """Something a person wrote is wrong; the message is one sentence that says what and where."""


class DecodeError(InputError):
    """An API object cannot be decoded."""


class ConfigError(InputError):
    """A scheduler configuration cannot be used."""


class KubeconfigError(InputError):
    """The way to a cluster, or the credentials for it, cannot be used."""


class ApiError(MoorageError):
    """The API server answered a request with an error.

    `status` is the HTTP status and `reason` the API's word for it (`NotFound`, `Conflict`, ...);
    `causes` are the reasons of the single causes that the answer lists.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        causes: tuple[str, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after

    @property
    def is_not_found(self) -> bool:
        """There is no such object (or no such resource)."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Somebody else changed the object first, or the pod is bound already."""
        return self.status == 409

    @property
    def is_for_another_uid(self) -> bool:
        """There is an object of that name, but with another uid than the request names.

        The API server answers such a deletion with a conflict and such a patch with an invalid
        value; only the message tells them from other conflicts and invalid values.
        """
        if self.status == 409:
            return "UID in" in self.message and "recondition" in self.message
        return self.status == 422 and "metadata.uid" in self.message

    @property
    def is_expired(self) -> bool:
        """The resource version asked for is no longer known: list again."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_version_too_large(self) -> bool:
        """The server has not seen the resource version asked for: it lags, or began anew."""
        return "ResourceVersionTooLarge" in self.causes


class UnreachableError(ApiError):
    """No answer came; `maybe_applied` says whether the server may have done it nevertheless."""

    def __init__(self, message: str, *, maybe_applied: bool) -> None:
        super().__init__(0, "Unreachable", message)
        self.maybe_applied = maybe_applied


class NotNeededError(MoorageError):
    """A request was not sent, because what it asks for has happened already."""


class StateError(MoorageError):
    """An event contradicts the cluster state."""


class CorruptStateError(StateError):
    """The cluster state cannot be trusted any more; the process must end and start afresh."""


class StrayError(MoorageError):
    """Raised instead of a KeyboardInterrupt, CancelledError and the like of a plugin."""


class PluginError(MoorageError):
    """A plugin failed; wraps the original exception as `__cause__`."""

    def __init__(self, plugin: str, phase: str, detail: str) -> None:
        match phase:  # upstream words these differently from the others
            case "Filter":
                text = f'running "{plugin}" filter plugin: {detail}'
            case "NormalizeScore":
                text = (
                    f'running Normalize on Score plugins: plugin "{plugin}" failed with: {detail}'
                )
            case "Score":
                text = f'running Score plugins: plugin "{plugin}" failed with: {detail}'
            case _:
                text = f'running {phase} plugin "{plugin}": {detail}'
        super().__init__(text)
        self.plugin = plugin
        self.phase = phase
        self.detail = detail


class ExtenderError(PluginError):
    """An extender could not be asked, answered nonsense, or said that it failed.

    For the pod it is what a failing plugin is, but the message stands alone, as upstream has it.
    """

    def __init__(self, message: str) -> None:
        MoorageError.__init__(self, message)
        self.plugin = "Extender"
        self.phase = ""
        self.detail = message


class CallTimedOutError(BaseException):
    """A plugin's call is ended from outside; no `except Exception` in the plugin may stop that."""

    def __init__(self, why: str = "no answer in time") -> None:
        super().__init__(why)


class FlagError(Exception):
    """The command line cannot be read; the message is what is printed after `Error:`."""


class AuthorizationFailedError(MoorageError):
    """Nobody could say whether it may be done; the answer is 500."""


class UnauthenticatedError(Exception):
    """Somebody claims to be who they cannot prove to be; the answer is 401."""


class BadParameterError(MoorageError):
    """A parameter cannot be read; the message says which and what was expected."""


class ConnectError(Exception):
    """There is no connection, so nothing can have been sent; the text is the reason."""


class BrokenError(Exception):
    """The connection ended before its answer did; the text is the reason."""

    def __init__(self, reason: str, *, stale: bool = False) -> None:
        super().__init__(reason)
        self.stale = stale
        """It was a used connection, and ended without a byte of the answer."""


class WireError(Exception):
    """What arrived is not HTTP/1.1; the text says where it is not."""


class AbandonedError(Exception):
    """The work was given up in a pause and never goes on."""


def reason_of(error: BaseException) -> str:
    """What an error says; one that was not raised on purpose is named by its type as well."""
    text = shown(error, str)
    if isinstance(error, (MoorageError, CallTimedOutError)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: object, show: Callable[[object], str] = repr) -> str:
    """A value in words, also if it cannot say what it is."""
    try:
        return show(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


class SelectorError(ValueError):
    """A selector that the API's parser would refuse."""


class TranslationError(ValueError):
    """A disk that has no equivalent at the driver; the message is upstream's."""


class ProcessError(MoorageError):
    """A program that a benchmark needs ended by itself or does not answer."""

    def __init__(self, message: str, log_end: str) -> None:
        super().__init__(message)
        self.log_end = log_end
        self.add_note(log_end)


class UnknownObjectError(MoorageError):
    """There is no such thing; the message says what was asked for."""


class NotReadyError(MoorageError):
    """Nothing can be told yet; the message says why."""


class FollowerTooSlowError(Exception):
    """A follower missed decisions: they are not in the list any more."""
