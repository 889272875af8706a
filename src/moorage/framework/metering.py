"""How long plugins take, and what they tell whoever counts.

Owns the measuring of one attempt: a `Meter` goes with the attempt from the first plugin to the
last, and a `Span` covers one extension point. Both come in two kinds; the silent ones read no clock
and tell nobody, so that code that is measured need not ask whether it is. Counting and keeping is
the observer's business.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

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


TimeT = TypeVar("TimeT", float, NDArray[Any])


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
        """The end of an extension point that every pod passes: less work than `point`.

        `begun` is what `now` read when it began.
        """

    def seconds(self) -> float:
        """How long the attempt has taken so far."""
        return 0.0

    def resume(self, seconds: float) -> None:
        """Go on as if the attempt had taken so long: it had to wait for others."""


LivePlugins = tuple[tuple[str, tuple[str, ...]], ...]
"""By point, the plugins that were asked about this very pod."""

Times = tuple[float, float, float, float, float, float]
"""When a decision on the short way began, had a ranking, had asked PreFilter, had filtered, had
asked PreScore, and was done."""

TIMES = 6
READINGS = TIMES + 2
"""How many things are left of a decision on the short way: see `ShortRecord`."""


def laps(times: Sequence[TimeT]) -> tuple[TimeT, TimeT, TimeT, TimeT]:
    """How long a decision spent in PreFilter, Filter, PreScore and Score; or many, as columns.

    To keep a ranking up to date is to filter.
    """
    began, ranked, prepared, filtered, weighed, ended = times
    in_filter = (ranked - began) + (filtered - prepared)
    return prepared - ranked, in_filter, weighed - filtered, ended - weighed


class Evaluations(NamedTuple):
    """Who answered about how many nodes; the same for most pods of a kind, so it can be counted."""

    pre_filter: tuple[str, ...]
    filter: tuple[tuple[str, int], ...]
    """With the number of nodes that nobody before had refused."""
    pre_score: tuple[str, ...]
    score: tuple[str, ...]


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


class ShortRecord:
    """What is known of the decisions of one profile by kept rankings; also to be taken away.

    `engine.fast_lane` leaves it here by itself, which saves a call for every pod.
    """

    __slots__ = ("close_looks", "readings")

    def __init__(self) -> None:
        self.readings: list[Any] = []
        """Of one decision after the other the `Times`, its `Evaluations` and how many nodes were
        feasible: all in a row, which was measured to be the cheapest way to keep them.
        """
        self.close_looks: list[tuple[LivePlugins, int]] = []
        """Of attempts that were looked at closely, who was asked, and where their readings end.

        Plugins that were asked share their point's time. The others gave a kept answer, so there is
        no time of theirs to measure.
        """


class RunningMeter(Meter):
    """Measures one attempt by its observer's stopwatch.

    `kinds_of` makes the kinds that are used: as every pod gets one, a meter holds nothing but its
    beginning.
    """

    __slots__ = ("started",)

    measures = True
    observer: "ClassVar[MeteringObserver]"

    @staticmethod
    def kinds_of(
        observer: "MeteringObserver", now: Callable[[], float]
    ) -> "tuple[type[RunningMeter], type[RunningMeter]]":
        """The usual kind, and the one that looks closely; `started` is for the caller to set."""
        shared = {"__slots__": (), "observer": observer, "now": staticmethod(now)}
        usual = type("UsualMeter", (RunningMeter,), {**shared, "closely": False})
        close = type("CloseMeter", (RunningMeter,), {**shared, "closely": True})
        return usual, close

    def point(self, name: str, profile: str) -> Span:
        """The beginning of an extension point."""
        return _RunningSpan(self, self._record(name, profile))

    def end(self, name: str, profile: str, status: str, begun: float) -> None:
        """The end of an extension point that every pod passes."""
        record = self.observer.points.get((name, profile)) or self.observer.new_point(name, profile)
        # As `PointRecord.ended`, which is called for less frequent points.
        if status is SUCCESS:
            record.successes.append(self.now() - begun)
        else:
            record.ends.append((status, self.now() - begun))

    def _record(self, name: str, profile: str) -> PointRecord:
        observer = self.observer
        return observer.points.get((name, profile)) or observer.new_point(name, profile)

    def seconds(self) -> float:
        """How long the attempt has taken so far."""
        return self.now() - self.started

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
    short_decisions: defaultdict[str, ShortRecord]
    """The records by profile."""

    def new_point(self, name: str, profile: str) -> PointRecord:
        """A record that is not there yet."""

    def plugin_finished(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin is through."""
