"""Deliberate failures, for testing clients: errors before or after an effect, cut watches, 410s.

Nothing happens unless a test asks for it.
"""

import random
from collections.abc import Callable

from moorage.apiserver.errors import ApiStatusError
from moorage.apiserver.requests import Target


class Fault:
    """One kind of failure: which requests it hits, how often, and what they get."""

    def __init__(
        self,
        error: ApiStatusError | None,
        *,
        methods: tuple[str, ...] = (),
        plural: str = "",
        subresource: str | None = None,
        share: float = 1.0,
        times: int | None = None,
        after: bool = False,
    ) -> None:
        """With `after` the request takes effect first; no `error` means a cut connection."""
        self.error = error
        self.after = after
        self.hits = 0
        self._methods = methods
        self._plural = plural
        self._subresource = subresource
        self._share = share
        self._left = times

    def strikes(self, method: str, target: Target, generator: random.Random) -> bool:
        """Does it hit this request? Counts when it does."""
        if self._left == 0 or (self._methods and method not in self._methods):
            return False
        if self._plural and target.resource.plural != self._plural:
            return False
        if self._subresource is not None and target.subresource != self._subresource:
            return False
        if generator.random() >= self._share:
            return False
        if self._left is not None:
            self._left -= 1
        self.hits += 1
        return True


class Faults:
    """The failures in force."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._faults: list[Fault] = []
        self._cut: Callable[[], int] = lambda: 0
        self._compact: Callable[[], None] = lambda: None

    def connect(self, cut: Callable[[], int], compact: Callable[[], None]) -> None:
        """Give it the server's own levers."""
        self._cut, self._compact = cut, compact

    def add(self, fault: Fault) -> Fault:
        """Put a failure in force."""
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """All well again."""
        self._faults.clear()

    def pick(self, method: str, target: Target) -> Fault | None:
        """The failure that hits this request, if any does."""
        for fault in self._faults:
            if fault.strikes(method, target, self._random):
                return fault
        return None

    def fail_bindings(
        self, share: float, *, after: bool = False, times: int | None = None, code: int = 500
    ) -> Fault:
        """Fail a share of all bindings, before or after they take effect."""
        error = ApiStatusError(code, "InternalError", "injected: binding failed")
        fault = Fault(
            error, methods=("POST",), subresource="binding", share=share, times=times, after=after
        )
        return self.add(fault)

    def throttle(self, share: float, *, retry_after: int = 1, times: int | None = None) -> Fault:
        """Answer a share of all requests with 429 and Retry-After."""
        message = "Too many requests, please try again later."
        error = ApiStatusError(429, "TooManyRequests", message, retry_after=retry_after)
        return self.add(Fault(error, share=share, times=times))

    def cut_watches(self) -> int:
        """Break every watch connection in the middle; answers how many there were."""
        return self._cut()

    def compact(self) -> None:
        """Forget all history: resuming watches and continuing lists get a 410."""
        self._compact()
