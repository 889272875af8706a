"""How long plugins take, and what they tell whoever counts.

Owns the measuring of one attempt: a `Meter` goes with the attempt from the first plugin to the
last, and a `Span` covers one extension point. Both come in two kinds; the silent ones read no clock
and tell nobody, so that code that is measured need not ask whether it is. Counting and keeping is
the observer's business.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from moorage.framework.status import Code

# The values of the label `status`, looked up once: reading an enum's value is slow.
SUCCESS = Code.SUCCESS.value
ERROR = Code.ERROR.value
UNSCHEDULABLE = Code.UNSCHEDULABLE.value
SKIPPED = Code.SKIP.value
WAIT = Code.WAIT.value

SHORT_POINTS = ("PreFilter", "Filter", "PreScore", "Score")
"""The points of a decision on the short way, in the order of its `laps`."""


class Named(Protocol):
    """A plugin, as far as this is concerned."""

    name: ClassVar[str]


class Span:
    """One extension point of one attempt; this one measures nothing."""

    __slots__ = ("status",)

    closely = False
    """Is each plugin measured by itself?"""

    def __init__(self) -> None:
        self.status = SUCCESS
        """How the point ends, as a status code's name; an exception makes it an error."""

    def __enter__(self) -> "Span":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def ran(self, plugin: str, status: str = SUCCESS) -> None:
        """A plugin answered; its time began when the one before it answered."""

    def answered(self, plugins: Sequence[Named], skipped: Collection[str], times: int) -> None:
        """All of the plugins but the skipped ones answered so often: a pod, or so many nodes."""


class Meter:
    """Measures one attempt; this one measures nothing."""

    __slots__ = ()

    measures = False
    """Is it worth working out what to tell?"""
    closely = False
    """Is each plugin measured by itself?"""
    now: Callable[[], float] = staticmethod(float)
    """The stopwatch; this one always shows 0."""
    started = 0.0
    """The stopwatch's reading when the attempt began."""

    def point(self, name: str, profile: str) -> Span:
        """The beginning of an extension point: use it in a `with` statement."""
        del name, profile
        return _NO_SPAN

    def end(self, name: str, profile: str, status: str, begun: float) -> None:
        """The end of an extension point that began when `now` read `begun`, without a `Span`."""

    def each(self, name: str, plugins: Sequence[Named], ends: Sequence[float], last: str) -> None:
        """When each of a point's plugins was through, in a close look; the first is the beginning.

        `last` is the status of the last one that answered; those before it succeeded.
        """

    def reserved(self, profile: str, begun: float) -> None:
        """Reserve succeeded, which every pod passes: less work than `point`.

        `begun` is what `now` read when it began.
        """

    def seconds(self) -> float:
        """How long the attempt has taken so far."""
        return 0.0

    def resume(self, seconds: float) -> None:
        """Go on as if the attempt had taken so long: it had to wait for others."""


LivePlugins = tuple[tuple[str, tuple[str, ...]], ...]
"""By point, the plugins that were asked about this very pod."""

Readings = tuple[float, float, float, float, float, float]
"""When a decision on the short way began, had a ranking, had asked PreFilter, had filtered, had
asked PreScore, and was done."""

READINGS = 6


def laps(readings: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """How long decisions spent in PreFilter, Filter, PreScore and Score, by their `Readings`.

    To keep a ranking up to date is to filter.
    """
    began, ranked, prepared, filtered, weighed, ended = readings
    in_filter = (ranked - began) + (filtered - prepared)
    return prepared - ranked, in_filter, weighed - filtered, ended - weighed


class Tally:
    """What decisions on the short way have in common that are counted together, and their times.

    Alike pods share it, so that little has to be kept of each. Whoever uses one tells the observer,
    which takes the times away from time to time and says so to the `Teller`.
    """

    __slots__ = (
        "busy",
        "close",
        "feasible",
        "filter",
        "known",
        "live",
        "pre_filter",
        "pre_score",
        "profile",
        "quiet",
        "quiet_looks",
        "score",
        "scored",
        "standing",
        "teller",
        "unfiltered",
        "unscored",
    )

    def __init__(self, profile: str, live: LivePlugins, teller: "Teller") -> None:
        self.profile = profile
        self.live = live
        # A ranking that was given up must not stay for the sake of what was counted.
        self.teller = weakref.ref(teller)
        self.known = False
        """Does the observer know of it?"""
        self.standing = 0
        """How many nodes were feasible where no plugin had anything to do."""
        self.scored = False
        """Was there more than one node to choose from?"""
        self.unfiltered: Sequence[str] = ()
        """Live plugins that had nothing to say where nodes are filtered ..."""
        self.unscored: Sequence[str] = ()
        """... and where they are scored."""
        # Who answered, at each point.
        self.pre_filter: Sequence[str] = ()
        self.filter: Sequence[tuple[str, int]] = ()
        """With the number of nodes that nobody before had refused."""
        self.pre_score: Sequence[str] = ()
        self.score: Sequence[str] = ()
        self.clear()

    def clear(self) -> None:
        """No decisions yet."""
        self.feasible = 0
        """How many nodes there were to choose from, over all of `busy`."""
        self.quiet: list[float] = []
        """How long decisions took in which no plugin had anything to do: that was filtering."""
        self.quiet_looks = 0
        """How many of those were looked at closely."""
        self.busy: list[float] = []
        """The `Readings` of the others, all in a row, which was measured to be the cheapest way."""
        self.close: list[int] = []
        """Where in `busy` the readings of those end that were looked at closely."""

    def taken(self) -> None:
        """The times are taken away, and the observer forgets about it."""
        self.clear()
        self.known = False
        teller = self.teller()
        if teller is not None:
            teller.tally = teller.quiet_tally = None

    @property
    def decisions(self) -> int:
        """How many there were."""
        return len(self.quiet) + len(self.busy) // READINGS

    @property
    def choices(self) -> int:
        """How many nodes there were to choose from, over all decisions."""
        return len(self.quiet) * self.standing + self.feasible


class Teller(Protocol):
    """Who decides on the short way again and again, and where it counts that."""

    tally: Tally | None
    quiet_tally: Tally | None


_NO_SPAN = Span()
SILENT = Meter()


class FrameworkObserver:
    """Is told what happens inside of attempts; must not call back. This one ignores everything."""

    def time(self) -> float:
        """A stopwatch's reading in seconds; whoever does not measure reads no clock."""
        return 0.0

    def meter(self) -> Meter:
        """A meter for an attempt that begins now."""
        return SILENT

    def plugin_finished(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin is through, in an attempt that was picked for a closer look."""

    def preemption_attempted(self) -> None:
        """DefaultPreemption was asked to make room."""

    def volume_stage_failed(self, stage: str) -> None:
        """Something broke in the volume binder's stage `predicate`, `assume` or `bind`."""

    def claim_created(self, status: str) -> None:
        """A claim for extended resources was sent to the API: `success` or `failure`."""

    def binding_conditions_waited(
        self, profile: str, driver: str, status: str, seconds: float
    ) -> None:
        """The wait for a device's conditions ended: success, failure, timeout or error."""

    def binding_conditions_allocated(self, profile: str, driver: str, status: str) -> None:
        """The same, counted once for each device that has conditions."""


class PointRecord:
    """What is known of one extension point of one profile, over all attempts.

    Spans only leave things here: sorting them in at once, between the work on two pods, was
    measured to cost nearly twice as much as doing it for many pods together. Whoever made the
    record must take away what lies here, before it gets too much.
    """

    __slots__ = ("answers", "ends", "name", "profile", "successes")

    def __init__(self, name: str, profile: str) -> None:
        self.name = name
        self.profile = profile
        self.successes: list[float] = []
        """How long each attempt took that ended with a success."""
        self.ends: list[tuple[str, float]] = []
        """How each other attempt ended, and after how long."""
        self.answers: list[tuple[Sequence[Named], Collection[str], int]] = []
        """Plugins, those of them that skipped, and how often the others answered."""

    def ended(self, status: str, seconds: float) -> None:
        """The point ended so, after so long."""
        if status is SUCCESS:
            self.successes.append(seconds)
        else:
            self.ends.append((status, seconds))


class RunningMeter(Meter):
    """Measures one attempt by its observer's stopwatch.

    As every pod gets one, it has no constructor: the observer sets the attributes. And as CPython
    looks for a method where `now` is called as one, which takes ten times as long as to read an
    attribute, it is read first and called then, here and wherever every pod passes.
    """

    __slots__ = ("closely", "now", "observer", "started")

    measures = True

    closely: bool
    now: Callable[[], float]
    observer: "MeteringObserver"
    started: float

    def point(self, name: str, profile: str) -> Span:
        """The beginning of an extension point."""
        return _RunningSpan(self, self._record(name, profile))

    def end(self, name: str, profile: str, status: str, begun: float) -> None:
        """The end of an extension point that began then."""
        self._record(name, profile).ended(status, self.now() - begun)

    def each(self, name: str, plugins: Sequence[Named], ends: Sequence[float], last: str) -> None:
        """When each of a point's plugins was through."""
        self.observer.close_looks.append((name, plugins, ends, last))

    def reserved(self, profile: str, begun: float) -> None:
        """Reserve succeeded."""
        now = self.now
        self.observer.reserved[profile].append(now() - begun)

    def _record(self, name: str, profile: str) -> PointRecord:
        observer = self.observer
        return observer.points.get((name, profile)) or observer.new_point(name, profile)

    def seconds(self) -> float:
        """How long the attempt has taken so far."""
        now = self.now
        return now() - self.started

    def resume(self, seconds: float) -> None:
        """Go on as if the attempt had taken so long."""
        self.started = self.now() - seconds


class _RunningSpan(Span):
    __slots__ = ("_lap", "_meter", "_record", "_started", "closely")

    def __init__(self, meter: RunningMeter, record: PointRecord) -> None:
        self.status = SUCCESS
        self._meter = meter
        self._record = record
        self.closely = meter.closely

    def __enter__(self) -> Span:
        self._started = self._lap = self._meter.now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = self._meter.now() - self._started
        self._record.ended(self.status if error is None else ERROR, seconds)

    def answered(self, plugins: Sequence[Named], skipped: Collection[str], times: int) -> None:
        self._record.answers.append((plugins, skipped, times))

    def ran(self, plugin: str, status: str = SUCCESS) -> None:
        if self.closely:
            meter = self._meter
            now = meter.now()
            meter.observer.plugin_finished(plugin, self._record.name, status, now - self._lap)
            self._lap = now


class MeteringObserver(Protocol):
    """What a running meter needs of its observer."""

    points: dict[tuple[str, str], PointRecord]
    """The records by extension point and profile."""
    tallies: list[Tally]
    """Those of decisions on the short way that have any."""
    reserved: defaultdict[str, list[float]]
    """By profile, how long Reserve took where nobody refused."""
    close_looks: list[tuple[str, Sequence[Named], Sequence[float], str]]
    """What `Meter.each` was told."""

    def new_point(self, name: str, profile: str) -> PointRecord:
        """A record that is not there yet."""

    def plugin_finished(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin is through."""
