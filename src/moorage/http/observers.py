"""What the secure port tells whoever counts: one method per fact, and an observer that ignores all.

Nothing here knows metrics; their names and labels are the observer's business.
"""

from typing import Protocol


class Observer(Protocol):
    """Told of what happens at the port; must not raise and must not block."""

    def authenticated(self, result: str, user: str, seconds: float) -> None:
        """A request was looked at: `success`, `failure` or `error`; `user` only with success."""

    def authorized(self, decision: str, seconds: float) -> None:
        """A decision: `allowed`, `denied`, `no-opinion` or `error`."""

    def token_cached(self, hit: bool, seconds: float) -> None:
        """A bearer token was looked up: was its holder known already?"""

    def reviewed(self, kind: str, code: str, seconds: float) -> None:
        """`TokenReview` or `SubjectAccessReview` was sent; `code` is the status or `<error>`."""

    def client_certificate(self, seconds_left: float) -> None:
        """A client certificate was shown that is still valid for so long."""

    def health_checked(self, endpoint: str, check: str, healthy: bool) -> None:
        """A check of `healthz`, `livez` or `readyz` was run on a request for all of them."""

    def requested(self, method: str, path: str, status: int, seconds: float) -> None:
        """A request was answered; `path` is a known path, or empty if it leads nowhere."""


class NoObserver:
    """Counts nothing."""

    def authenticated(self, result: str, user: str, seconds: float) -> None:
        """Ignored."""

    def authorized(self, decision: str, seconds: float) -> None:
        """Ignored."""

    def token_cached(self, hit: bool, seconds: float) -> None:
        """Ignored."""

    def reviewed(self, kind: str, code: str, seconds: float) -> None:
        """Ignored."""

    def client_certificate(self, seconds_left: float) -> None:
        """Ignored."""

    def health_checked(self, endpoint: str, check: str, healthy: bool) -> None:
        """Ignored."""

    def requested(self, method: str, path: str, status: int, seconds: float) -> None:
        """Ignored."""


SILENT = NoObserver()
