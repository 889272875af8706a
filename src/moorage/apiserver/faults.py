"""Deliberate failures, for testing clients: errors before or after an effect, cut watches, 410s.

Nothing happens unless a test asks for it.
"""

import random
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from moorage.apiserver.errors import ApiStatusError
from moorage.apiserver.requests import Target


@dataclass
class Fault:
    """One kind of failure: which requests it hits, how often, and what they get."""

    error: ApiStatusError | None
    """None for a cut connection."""
    _: KW_ONLY
    methods: tuple[str, ...] = ()
    plural: str = ""
    subresource: str | None = None
    share: float = 1.0
    times: int | None = None
    """How often it still strikes."""
    after: bool = False
    """Does the request take effect first?"""
    hits: int = 0

    def strikes(self, method: str, target: Target, generator: random.Random) -> bool:
        """Does it hit this request? Counts when it does."""
        if self.times == 0 or (self.methods and method not in self.methods):
            return False
        if self.plural and target.resource.plural != self.plural:
            return False
        if self.subresource is not None and target.subresource != self.subresource:
            return False
        if generator.random() >= self.share:
            return False
        if self.times is not None:
            self.times -= 1
        self.hits += 1
        return True


class Faults:
    """The failures in force."""

    def __init__(
        self, generator: random.Random, cut: Callable[[], int], compact: Callable[[], None]
    ) -> None:
        self._random = generator
        self._faults: list[Fault] = []
        self.cut_watches = cut
        """Break every watch connection in the middle; answers how many there were."""
        self.compact = compact
        """Forget all history: resuming watches and continuing lists get a 410."""

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
