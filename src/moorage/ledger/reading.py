"""Asking a ledger: decisions by number or by pod, the cluster at a moment, and why.

Owns what both kinds of ledger share, the running one and the files. Each consists of segments of
the stream that can be followed from their first objects on. Whatever takes long is done in steps
(see `moment`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from stat import S_ISDIR
from typing import Protocol

from moorage.errors import ConfigError, InputError
from moorage.explain.report import DecisionExplanation, DecisionSummary
from moorage.ledger.entries import AttemptSummary, ChunkPlace, RecordedDecision
from moorage.ledger.explaining import explain_decision
from moorage.ledger.files import LedgerFile, ledger_files
from moorage.ledger.moment import Moment, Steps, finish, moment_of
from moorage.ledger.objects import Objects

_MOST_OPEN = 8


class Segment(Protocol):
    """A part of the stream that needs nothing before it."""

    name: str
    """What messages call it."""

    @property
    def chunks(self) -> Sequence[ChunkPlace]:
        """Its chunks in their order."""

    def start(self) -> Objects:
        """The objects before its first chunk, for the caller to change."""


class Reader:
    """What can be asked of any ledger; the segments with smaller numbers come first."""

    def __init__(self, segments: Sequence[Segment], problems: Sequence[str] = ()) -> None:
        self.problems = tuple(problems)
        """What could not be read, each as one sentence."""
        self._stretches = segments
        self._open: deque[ChunkPlace] = deque()
        """The chunks that were read last."""
        self._passed: tuple[ChunkPlace, Objects] | None = None
        """The objects before the chunk that was asked about last."""
        self._near: Moment | None = None
        """The moment that was made last, unless somebody uses it."""

    def unpacked(self) -> Sequence[RecordedDecision]:
        """The newest decisions, which are in no chunk yet."""
        return ()

    def __len__(self) -> int:
        return sum(len(place.numbers) for place in self._places()) + len(self.unpacked())

    def summaries(
        self,
        before: int | None = None,
        limit: int = 100,
        pod: str | None = None,
        namespace: str = "",
    ) -> list[DecisionSummary]:
        """Decisions with smaller numbers than `before`, newest first.

        Only those about `pod`, or about pods in `namespace`, where these are given.
        """
        with _readable("The list of decisions"):
            asked = (
                one
                for one in self._newest_first(before, pod)
                if not namespace or one.summary.pod.startswith(f"{namespace}/")
            )
            found = islice(asked, max(limit, 0))
            return [decision.summary for decision in found]

    def attempts(self) -> Iterator[list[AttemptSummary]]:
        """All decisions in short, some at a time, the oldest first."""
        places, unpacked = self._places(), self.unpacked()  # more may come while these are read
        for place in places:
            with _readable("The list of decisions"):
                yield place.attempts()
        summaries = [decision.summary for decision in unpacked]
        yield [AttemptSummary(one.time, one.result, one.seconds) for one in summaries]

    def latest_about(self, pod: str) -> int | None:
        """The number of the latest decision about a pod."""
        with _readable(f"The decisions about {pod}"):
            return next((one.summary.number for one in self._newest_first(None, pod)), None)

    def explain(
        self, number: int, *, top: int = 10, matrix: tuple[int, int] | None = None
    ) -> DecisionExplanation:
        """Everything about a decision; `matrix` is a page as its offset and its length."""
        return finish(self.explaining(number, top=top, matrix=matrix))

    def explaining(
        self, number: int, *, top: int = 10, matrix: tuple[int, int] | None = None
    ) -> Steps[DecisionExplanation]:
        """The same in steps."""
        with _readable(f"Decision {number}"):
            moment, decision = yield from self.moment(number)
            told = explain_decision(moment, decision, top=top, matrix=matrix)
        self._near = moment
        return told

    def moment(self, number: int) -> Steps[tuple[Moment, RecordedDecision]]:
        """The cluster just before a decision, and the decision; in steps."""
        segment, place = self._find(number)
        with _readable(f"Decision {number}"):
            objects = yield from self._objects(segment, place)
            decision = self._opened(place).decisions[number - place.numbers.start]
            objects.follow_chunk(place, until=number)
            near, self._near = self._near, None
            moment = yield from moment_of(objects, decision, near)
        return moment, decision

    def last_moment(self) -> Moment | None:
        """The cluster after everything that is recorded; None if nothing is."""
        if not self._stretches:
            return None
        with _readable("The end of the ledger"):
            last = self._stretches[-1]
            objects = last.start()
            for place in last.chunks:
                objects.follow_chunk(self._opened(place))
            return finish(moment_of(objects, None, None))

    def _objects(self, segment: Segment, wanted: ChunkPlace) -> Steps[Objects]:
        """The objects before a chunk, for the caller to change."""
        chunks = list(segment.chunks)  # the oldest may be forgotten between two steps
        before = chunks[: chunks.index(wanted)]
        if self._passed is not None and self._passed[0] in (*before, wanted):
            passed, objects = self._passed[0], self._passed[1].copy()
            before = before[chunks.index(passed) :]
        else:
            objects = segment.start()
        for place in before:
            objects.follow_chunk(self._opened(place))
            yield
        self._passed = wanted, objects.copy()
        return objects

    def _newest_first(self, before: int | None, pod: str | None) -> Iterator[RecordedDecision]:
        for decision in chain(reversed(self.unpacked()), self._packed(before, pod)):
            summary = decision.summary
            if (before is None or summary.number < before) and pod in (None, summary.pod):
                yield decision

    def _packed(self, before: int | None, pod: str | None) -> Iterator[RecordedDecision]:
        for place in reversed(self._places()):
            if before is not None and place.numbers.start >= before:
                continue
            if pod is None or place.mentions(pod):
                yield from reversed(self._opened(place).decisions)

    def _places(self) -> list[ChunkPlace]:
        places = [place for segment in self._stretches for place in segment.chunks if place.numbers]
        return sorted(places, key=lambda place: place.numbers.start)

    def _find(self, number: int) -> tuple[Segment, ChunkPlace]:
        """Where a decision is."""
        found = [
            (segment, place)
            for segment in self._stretches
            for place in segment.chunks
            if number in place.numbers
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"There are {len(found)} decisions {number}, in {found[0][0].name} and in "
                f"{found[1][0].name}: more than one scheduler wrote here, so ask one of the files."
            )
        held = self._numbers()
        if not held:
            raise InputError(f"There is no decision {number}: the ledger holds no decisions.")
        raise InputError(
            f"There is no decision {number}: the ledger holds {held[0]} to {held[-1]}."
        )

    def _numbers(self) -> range:
        """From the first decision to the last."""
        places = self._places()
        if not places:
            return range(0)
        return range(places[0].numbers.start, max(place.numbers.stop for place in places))

    def _opened(self, place: ChunkPlace) -> ChunkPlace:
        """A chunk to be read, which stays in memory for a while."""
        if place not in self._open:
            self._open.append(place)
            if len(self._open) > _MOST_OPEN:
                self._open.popleft().close()
        return place


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Records that contradict each other are told in one sentence."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, IndexError, KeyError, OverflowError, ConfigError) as error:
        raise InputError(f"{what} cannot be read: {error}.") from error


def open_ledger(path: Path | str) -> Reader:
    """Read a ledger; `InputError` if there is none, or none that can be read."""
    path = Path(path)
    # `Path.exists` and `Path.is_dir` raise for some of what is wrong and say no to the rest.
    try:
        files = ledger_files(path) if S_ISDIR(path.stat().st_mode) else [path]
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: there is no such file or directory.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if not files:
        raise InputError(f"{path} holds no ledger: there is no file decisions-*.ledger in it.")
    read: list[LedgerFile] = []
    problems: list[str] = []
    for file in files:
        try:
            read.append(LedgerFile(file))
        except InputError as error:
            problems.append(str(error))
    if not read:
        raise InputError(problems[0])
    return Reader(read, [*problems, *(one.problem for one in read if one.problem)])
