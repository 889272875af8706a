"""The latest decisions for those who follow them live.

Owns one short list that all followers read from, each at its own pace: a follower costs a number,
not a buffer. Whoever is slower than the list is long has lost decisions, and is told so. Knows no
HTTP.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from moorage.errors import FollowerTooSlowError
from moorage.explain.report import DecisionSummary

LENGTH = 4096
"""How many decisions a follower may be behind."""


class Follower:
    """One who follows; made by `DecisionFeed.follow`."""

    def __init__(self, feed: "DecisionFeed", position: int) -> None:
        self._feed = feed
        self._position = position
        self._at_end: Callable[[], None] | None = None
        self.news = asyncio.Event()
        """Set when there may be something to take, or when the feed is closed."""

    @property
    def closed(self) -> bool:
        """Is there nothing more to come?"""
        return self._feed.closed

    def when_closed(self, call: Callable[[], None]) -> None:
        """Have this called when the feed is closed."""
        self._at_end = call

    def take(self, most: int) -> Sequence[DecisionSummary]:
        """What came since the last call, oldest first; `FollowerTooSlowError` if some is gone."""
        found = self._feed.since(self._position, most)
        self._position += len(found)
        if self._position == self._feed.position and not self._feed.closed:
            self.news.clear()
        return found

    def leave(self) -> None:
        """Follow no more."""
        self._feed.forget(self)

    def end(self) -> None:
        """The feed is closed."""
        self.news.set()
        if self._at_end is not None:
            self._at_end()


class DecisionFeed:
    """Keeps decisions while somebody follows."""

    def __init__(self, length: int = LENGTH) -> None:
        self._kept: deque[DecisionSummary] = deque(maxlen=length)
        self._followers: set[Follower] = set()
        self.position = 0
        """How many decisions were ever kept."""
        self.closed = False

    def tell(self, summary: DecisionSummary) -> None:
        """A decision was made."""
        if not self._followers:
            return
        self._kept.append(summary)
        self.position += 1
        for follower in self._followers:
            follower.news.set()

    def follow(self) -> Follower:
        """Follow from now on."""
        follower = Follower(self, self.position)
        if self.closed:
            follower.end()
        else:
            self._followers.add(follower)
        return follower

    @property
    def followers(self) -> int:
        """How many follow."""
        return len(self._followers)

    def forget(self, follower: Follower) -> None:
        """Somebody follows no more."""
        self._followers.discard(follower)
        if not self._followers:
            self._kept.clear()

    def since(self, position: int, most: int) -> Sequence[DecisionSummary]:
        """The decisions after so many."""
        behind = self.position - position
        if behind > len(self._kept):
            raise FollowerTooSlowError
        start = len(self._kept) - behind
        return [self._kept[place] for place in range(start, min(start + most, len(self._kept)))]

    def close(self) -> None:
        """Send everybody away."""
        self.closed = True
        for follower in list(self._followers):
            follower.end()
