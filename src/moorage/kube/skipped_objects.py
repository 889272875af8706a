"""The objects of one kind that cannot be used: the one place that decides that, and says so.

Whatever goes wrong while an object is read (`decoding`) or taken into account (`store`) concerns
this object alone. Owns which errors count as such, what the log says, and which objects are skipped
at the moment. Must not change any state: the caller leaves the object out.
"""

import logging
from collections.abc import Container

from moorage.errors import CorruptStateError, MoorageError, reason_of
from moorage.model.decode import describe

log = logging.getLogger(__name__)

MOST_NAMED = 4096
"""Remembered so that the log names each once; beyond that the oldest are forgotten."""


class SkippedObjects:
    """Keys of objects (`namespace/name`), each with the reason why it is skipped."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        """How many are skipped at the moment."""
        return len(self._reasons)

    def skip(self, key: str, error: Exception) -> None:
        """Note that an object is left out, and log it unless the last reason was the same.

        A `CorruptStateError` is raised again: it is not the fault of one object.
        """
        if isinstance(error, CorruptStateError):
            raise error
        reason = reason_of(error)
        if self._reasons.get(key) == reason:
            return
        if len(self._reasons) >= MOST_NAMED and key not in self._reasons:
            del self._reasons[next(iter(self._reasons))]
        self._reasons[key] = reason
        namespace, _, name = key.rpartition("/")
        subject = describe(self._kind, namespace, name)
        log.error("skipped %s", reason if subject in reason else f"{subject}: {reason}")
        if not isinstance(error, MoorageError):
            log.debug("why %s was skipped", subject, exc_info=error)

    def clear(self, key: str) -> None:
        """The object is fine now, or gone."""
        self._reasons.pop(key, None)

    def keep(self, existing: Container[str]) -> None:
        """Forget the objects that do not exist any more."""
        for key in [key for key in self._reasons if key not in existing]:
            del self._reasons[key]
