"""Who may ask what: a short cut for administrators, paths open to all, else the API server decides.

Owns the order of these and upstream's rules for remembering answers. Every question here is about a
path, never about an API object: that is all this port serves.
"""

import logging
import time
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from moorage.config.field_errors import quoted
from moorage.errors import ApiError, AuthorizationFailedError, InputError
from moorage.http.authentication import MASTERS, User
from moorage.http.endpoints import SILENT, PortObserver
from moorage.http.reviews import AnswerCache, Reviewer
from moorage.kube.requests import subject_access_review

log = logging.getLogger(__name__)

_MOST_ANSWERS = 8192
_LONGEST_REMEMBERED = 10_000
"""A longer path is not remembered: whoever asks chooses it."""


class Decision(Enum):
    """The decision about a request; only one of these lets it in."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NO_OPINION = "no-opinion"


class AccessVerdict(NamedTuple):
    """A decision and what the API server gave as its reason."""

    decision: Decision
    reason: str = ""

    @property
    def allowed(self) -> bool:
        return self.decision is Decision.ALLOWED


class OpenPaths:
    """Paths that everybody may ask: whole ones, and beginnings that end in `*`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._exact: set[str] = set()
        prefixes: list[str] = []
        for path in paths:
            bare = path.removeprefix("/")
            if "*" in bare[:-1]:
                raise InputError(f"only trailing * allowed in {quoted(bare)}")
            if bare.endswith("*"):
                prefixes.append(bare[:-1])
            else:
                self._exact.add(bare)
        self._prefixes = tuple(prefixes)

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)


class AccessReviews:
    """Asks the API server, and remembers the answers for a while."""

    def __init__(
        self,
        reviewer: Reviewer,
        allowed_seconds: float,
        denied_seconds: float,
    ) -> None:
        self._reviewer = reviewer
        self._answers: AnswerCache[bytes, dict[str, Any]] = AnswerCache(
            _MOST_ANSWERS,
            lambda answer: allowed_seconds if answer.get("allowed") else denied_seconds,
        )

    async def decide(self, user: User, verb: str, path: str) -> AccessVerdict:
        """The API server's word; `AuthorizationFailedError` if it has none."""
        spec = _spec(user, verb, path)
        try:
            if len(verb) + len(path) < _LONGEST_REMEMBERED:
                key = msgspec.json.encode(spec)
                status = await self._answers.get(key, lambda: self._ask(spec))
            else:
                status = await self._ask(spec)
        except ApiError as error:
            log.error("Failed to make webhook authorizer request: %s", error)
            raise AuthorizationFailedError(str(error)) from error
        reason = str(status.get("reason") or "")
        allowed, denied = status.get("allowed") is True, status.get("denied") is True
        if allowed and denied:
            raise AuthorizationFailedError(
                "webhook subject access review returned both allow and deny response"
            )
        if denied:
            return AccessVerdict(Decision.DENIED, reason)
        return AccessVerdict(Decision.ALLOWED if allowed else Decision.NO_OPINION, reason)

    async def close(self) -> None:
        await self._answers.close()

    async def _ask(self, spec: dict[str, Any]) -> dict[str, Any]:
        return await self._reviewer.send("SubjectAccessReview", subject_access_review(spec))


class Authorizer:
    """Asks the parts in their order; without an API server to ask, the rest is refused."""

    def __init__(
        self,
        paths: OpenPaths,
        reviews: AccessReviews | None = None,
        *,
        observer: PortObserver = SILENT,
    ) -> None:
        self._paths = paths
        self.reviews = reviews
        self._observer = observer

    async def authorize(self, user: User, verb: str, path: str) -> AccessVerdict:
        """May this user do this? `AuthorizationFailedError` if that cannot be found out."""
        started = time.monotonic()
        result = "error"
        try:
            verdict = await self._verdict(user, verb, path)
            result = verdict.decision.value
            return verdict
        finally:
            self._observer.authorized(result, time.monotonic() - started)

    async def _verdict(self, user: User, verb: str, path: str) -> AccessVerdict:
        if MASTERS in user.groups or path in self._paths:
            return AccessVerdict(Decision.ALLOWED)
        if self.reviews is None:
            return AccessVerdict(Decision.NO_OPINION)
        return await self.reviews.decide(user, verb, path)


def _spec(user: User, verb: str, path: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}}
    if user.name:
        spec["user"] = user.name
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key.lower(): list(values) for key, values in user.extra.items()}
    if user.uid:
        spec["uid"] = user.uid
    return spec
