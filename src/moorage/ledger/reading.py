"""Asking a ledger: decisions by number or by pod, the cluster at a moment, and why.

Owns what both kinds of ledger share, the running one and the files. They say which stretches of
the stream there are; each can be followed from its first object on. Whatever takes long is done in
steps (see `moment`).
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from stat import S_ISDIR
from typing import Protocol

from moorage.errors import ConfigError, InputError
from moorage.explain.report import DecisionExplanation, DecisionSummary
from moorage.ledger.entries import ChunkPlace, RecordedDecision
from moorage.ledger.explaining import explain_decision
from moorage.ledger.files import LedgerFile, ledger_files, scan
from moorage.ledger.moment import Moment, Steps, at, finish
from moorage.ledger.objects import Objects

_MOST_OPEN = 8


class Stretch(Protocol):
    """A part of the stream that needs nothing before it."""

    @property
    def chunks(self) -> Sequence[ChunkPlace]:
        """Its chunks in their order."""

    def start(self) -> Objects:
        """The objects before its first chunk, for the caller to change."""


class Reader(ABC):
    """What can be asked of any ledger."""

    problems: Sequence[str] = ()
    """What could not be read, each as one sentence."""

    def __init__(self) -> None:
        self._open: deque[ChunkPlace] = deque()
        """The chunks that were read last."""
        self._passed: tuple[ChunkPlace, Objects] | None = None
        """The objects before the chunk that was asked about last."""
        self._near: Moment | None = None
        """The moment that was made last, unless somebody uses it."""

    @abstractmethod
    def stretches(self) -> Sequence[Stretch]:
        """The stream, those with smaller numbers first."""

    def unpacked(self) -> Sequence[RecordedDecision]:
        """The newest decisions, which are in no chunk yet."""
        return ()

    def __len__(self) -> int:
        """How many decisions there are."""
        return sum(place.count for place in self._places()) + len(self.unpacked())

    def summaries(
        self, before: int | None = None, limit: int = 100, pod: str | None = None
    ) -> list[DecisionSummary]:
        """Decisions with smaller numbers than `before`, newest first; only those about `pod`."""
        with _readable("The list of decisions"):
            found = islice(self._newest_first(before, pod), max(limit, 0))
            return [decision.summary(number) for number, decision in found]

    def latest_about(self, pod: str) -> int | None:
        """The number of the latest decision about a pod."""
        with _readable(f"The decisions about {pod}"):
            return next((number for number, _ in self._newest_first(None, pod)), None)

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
            told = explain_decision(moment, decision, number, top=top, matrix=matrix)
        self._near = moment
        return told

    def moment(self, number: int) -> Steps[tuple[Moment, RecordedDecision]]:
        """The cluster just before a decision, and the decision; in steps."""
        stretch, chunks, index = self._find(number)
        place = chunks[index]
        with _readable(f"Decision {number}"):
            objects = yield from self._objects(stretch, chunks, index)
            decision = self._opened(place).decisions[number - place.first]
            objects.follow(place, number - place.first)
            near, self._near = self._near, None
            moment = yield from at(objects, decision, near)
        return moment, decision

    def last_moment(self) -> Moment | None:
        """The cluster after everything that is recorded; None if nothing is."""
        stretches = self.stretches()
        if not stretches:
            return None
        with _readable("The end of the ledger"):
            objects = stretches[-1].start()
            for place in stretches[-1].chunks:
                objects.follow(self._opened(place))
            return finish(at(objects, None, None))

    def _objects(
        self, stretch: Stretch, chunks: Sequence[ChunkPlace], index: int
    ) -> Steps[Objects]:
        """The objects before a chunk, for the caller to change."""
        begin, objects = 0, None
        if self._passed is not None:
            known = next((i for i in range(index + 1) if chunks[i] is self._passed[0]), None)
            if known is not None:
                begin, objects = known, self._passed[1].copy()
        if objects is None:
            objects = stretch.start()
        for place in chunks[begin:index]:
            objects.follow(self._opened(place))
            yield
        self._passed = chunks[index], objects.copy()
        return objects

    def _newest_first(
        self, before: int | None, pod: str | None
    ) -> Iterator[tuple[int, RecordedDecision]]:
        unpacked = self.unpacked()
        after = self._numbers().stop
        newest = ((after - 1 - i, one) for i, one in enumerate(reversed(unpacked)))
        for number, decision in chain(newest, self._packed(before, pod)):
            if (before is None or number < before) and (pod is None or decision.pod == pod):
                yield number, decision

    def _packed(
        self, before: int | None, pod: str | None
    ) -> Iterator[tuple[int, RecordedDecision]]:
        for place in reversed(self._places()):
            if not place.count or (before is not None and place.first >= before):
                continue
            if pod is not None and not place.mentions(pod):
                continue
            decisions = self._opened(place).decisions
            for index in range(len(decisions) - 1, -1, -1):
                yield place.first + index, decisions[index]

    def _places(self) -> list[ChunkPlace]:
        places = [place for stretch in self.stretches() for place in stretch.chunks]
        return sorted(places, key=lambda place: place.first)

    def _find(self, number: int) -> tuple[Stretch, Sequence[ChunkPlace], int]:
        """Where a decision is."""
        for stretch in self.stretches():
            chunks = list(stretch.chunks)
            for index, place in enumerate(chunks):
                if place.first <= number < place.first + place.count:
                    return stretch, chunks, index
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
        return range(places[0].first, max(place.first + place.count for place in places))

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


class FileReader(Reader):
    """The decisions in some files."""

    def __init__(self, files: Sequence[LedgerFile], problems: Sequence[str]) -> None:
        super().__init__()
        self.problems = tuple(problems)
        self._files = files

    def stretches(self) -> Sequence[Stretch]:
        """A file each."""
        return self._files

    def _find(self, number: int) -> tuple[Stretch, Sequence[ChunkPlace], int]:
        files = [
            file.path
            for file in self._files
            for place in file.chunks
            if place.first <= number < place.first + place.count
        ]
        if len(files) > 1:
            raise InputError(
                f"There are {len(files)} decisions {number}, in {files[0]} and in {files[1]}: "
                "more than one scheduler wrote here, so ask one of the files."
            )
        return super()._find(number)


def open_ledger(path: Path | str) -> Reader:
    """Read a ledger; `InputError` if there is none, or none that can be read."""
    path = Path(path)
    # `Path.exists` and `Path.is_dir` raise for some of what is wrong and say no to the rest.
    try:
        files = ledger_files(path) if S_ISDIR(path.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: there is no such file or directory.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if files is None:
        found = scan(path)
        return FileReader([found], [found.problem] if found.problem else [])
    if not files:
        raise InputError(f"{path} holds no ledger: there is no file decisions-*.ledger in it.")
    read: list[LedgerFile] = []
    problems: list[str] = []
    for file in files:
        try:
            read.append(scan(file))
        except InputError as error:
            problems.append(str(error))
    if not read:
        raise InputError(problems[0])
    problems += [one.problem for one in read if one.problem]
    return FileReader(read, problems)
