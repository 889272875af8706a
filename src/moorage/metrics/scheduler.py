"""What the scheduler and its queue tell, put into kube-scheduler's metrics.

Owns the way from an event of the engine to labels and values. It is called for every pod many
times, so the values that are needed all the time are kept at hand.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random

import numpy as np

from moorage.engine.observer import SCHEDULED, SchedulerObserver
from moorage.engine.queue.observer import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, QueueObserver
from moorage.framework.metering import (
    READINGS,
    SHORT_POINTS,
    SUCCESS,
    Meter,
    Named,
    PointRecord,
    RunningMeter,
    Tally,
    laps,
)
from moorage.framework.profile import Profile
from moorage.framework.status import Code
from moorage.metrics.registry import MetricsRegistry
from moorage.metrics.scheduler_families import (
    ActionFamilies,
    AttemptFamilies,
    GatedFamilies,
    GateState,
    QueueFamilies,
    register_batching,
)

SAMPLE_PERCENT = 10
"""In how many of a hundred attempts each plugin is measured by itself."""

_MISSED = math.log1p(-SAMPLE_PERCENT / 100)
_MOST_ATTEMPTS = 15
_GAPS_DRAWN = 256
_MOST_LEFT = 4096
"""After about how many attempts what they left is sorted in, with the next close look."""
_SUCCEEDED = "success"
_BINDING = "binding"
_PRE_ENQUEUE = "PreEnqueue"
_RESERVE = "Reserve"


class SchedulerMetrics(SchedulerObserver, QueueObserver):
    """Records everything; `now` is a stopwatch, `random` picks the attempts to look at closely."""

    def __init__(
        self,
        registry: MetricsRegistry,
        enabled: GateState,
        *,
        now: Callable[[], float] = time.perf_counter,
        random: Random | None = None,
    ) -> None:
        self._now = now
        self._random = random or Random()
        self._until_close = self._gap()
        self._gaps: list[int] = []
        """Drawn ahead: between the work on two pods it takes thrice as long."""
        self._attempts = AttemptFamilies(registry)
        self._queue = QueueFamilies(registry, enabled)
        self._actions = ActionFamilies(registry, enabled)
        self._gated = GatedFamilies(registry, enabled)
        register_batching(registry)
        # These are there from the beginning, as upstream; gauges are never reset.
        self._pending = {
            queue: self._queue.pending.labels(queue)
            for queue in (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)
        }
        self._sizes: Callable[[], Mapping[str, int]] = _no_sizes
        # What attempts left here to be sorted in later; see `PointRecord` and `Tally`.
        self.points: dict[tuple[str, str], PointRecord] = {}
        self.tallies: list[Tally] = []
        self.reserved: defaultdict[str, list[float]] = defaultdict(list)
        self.close_looks: list[tuple[str, Sequence[Named], Sequence[float], str]] = []
        self._left = 0
        self._algorithm: list[float] = []
        self._plugin_times: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
        self._ends: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._bound: defaultdict[str, list[float]] = defaultdict(list)
        self._waits: defaultdict[int, list[float | None]] = defaultdict(list)
        registry.before_render(self._refresh)

    # Measuring.

    def time(self) -> float:
        """The stopwatch's reading."""
        return self._now()

    def meter(self) -> Meter:
        """A meter that runs; chance decides whether it looks closely."""
        meter = RunningMeter()
        meter.observer = self
        meter.closely = False
        self._until_close -= 1
        if not self._until_close:
            meter.closely = True
            self._look_closely()
        now = meter.now = self._now
        meter.started = now()
        return meter

    def _look_closely(self) -> None:
        """Draw when to do so next, and tidy up, if that is due."""
        if not self._gaps:
            self._gaps = [self._gap() for _ in range(_GAPS_DRAWN)]
        self._until_close = self._gaps.pop()
        self._left += self._until_close
        if self._left >= _MOST_LEFT:
            self._gather()

    def _gap(self) -> int:
        """How many attempts on from one close look the next one is.

        As long as the wait for the first success among trials that succeed with SAMPLE_PERCENT.
        """
        return 1 + int(math.log1p(-self._random.random()) / _MISSED)

    # What there is.

    def profiles_known(self, profiles: Mapping[str, Profile]) -> None:
        """Every plugin's evaluations are shown before there are any, as upstream."""
        for name, profile in profiles.items():
            for point, plugins in (
                ("PreFilter", profile.pre_filter),
                ("Filter", profile.filter),
                ("PreScore", profile.pre_score),
                ("Score", profile.score),
            ):
                for plugin in plugins:
                    self._attempts.evaluations.labels(plugin.name, point, name)

    def cache_known(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """The sizes are asked for whenever somebody reads the metrics."""
        self._sizes = sizes

    def _refresh(self) -> None:
        self._gather()
        for kind, size in self._sizes().items():
            self._queue.cache_size.labels(kind).set(size)

    def forget(self) -> None:
        """What was counted is going to be reset, and what lies about with it."""
        self._gather()

    def _gather(self) -> None:
        """Sort in what attempts left since the last time."""
        families = self._attempts
        self._left = 0
        for record in self.points.values():
            self._gather_point(record)
        for tally in self.tallies:
            self._gather_tally(tally)
        for profile, durations in self.reserved.items():
            families.point_duration.labels(_RESERVE, SUCCESS, profile).observe_all(durations)
        families.algorithm_duration.labels().observe_all(self._algorithm)
        for profile, durations in self._bound.items():
            self._ends[SCHEDULED, profile] = durations
        for point, plugins, ends, last in self.close_looks:
            for place, (begun, end) in enumerate(pairwise(ends), 2):
                status = last if place == len(ends) else SUCCESS
                self.plugin_finished(plugins[place - 2].name, point, status, end - begun)
        for (plugin, point, status), durations in self._plugin_times.items():
            families.plugin_duration.labels(plugin, point, status).observe_all(durations)
        for (result, profile), durations in self._ends.items():
            families.attempt_duration.labels(result, profile).observe_all(durations)
            families.attempts.labels(result, profile).value += len(durations)
        for attempts, waits in self._waits.items():
            families.pod_attempts.labels().observe(attempts, len(waits))
            shown = str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
            if known := [waited for waited in waits if waited is not None]:
                families.sli_duration.labels(shown).observe_all(known)
        self.tallies.clear()
        self.reserved.clear()
        self.close_looks.clear()
        self._plugin_times.clear()
        self._algorithm.clear()
        self._ends.clear()
        self._bound.clear()
        self._waits.clear()

    def _gather_point(self, record: PointRecord) -> None:
        durations, evaluations = self._attempts.point_duration, self._attempts.evaluations
        name, profile = record.name, record.profile
        if record.successes:
            durations.labels(name, SUCCESS, profile).observe_all(record.successes)
        for status, seconds in record.ends:
            durations.labels(name, status, profile).observe(seconds)
        for plugins, skipped, times in record.answers:
            for plugin in plugins:
                if plugin.name not in skipped:
                    evaluations.labels(plugin.name, name, profile).value += times
        record.successes.clear()
        record.ends.clear()
        record.answers.clear()

    def _gather_tally(self, tally: Tally) -> None:
        """Decisions on the short way."""
        families, profile = self._attempts, tally.profile
        points = SHORT_POINTS if tally.scored else SHORT_POINTS[:2]
        if tally.quiet:
            families.algorithm_duration.labels().observe_all(tally.quiet)
            for point in points:
                duration = families.point_duration.labels(point, SUCCESS, profile)
                if point == "Filter":
                    duration.observe_all(tally.quiet)
                else:
                    duration.observe(0.0, len(tally.quiet))
            for point, plugins in tally.live if tally.quiet_looks else ():
                for plugin in plugins if point in points else ():
                    duration = families.plugin_duration.labels(plugin, point, SUCCESS)
                    duration.observe(0.0, tally.quiet_looks)
        if tally.busy:
            self._gather_laps(tally, points)
        for plugin in tally.pre_filter:
            families.evaluations.labels(plugin, "PreFilter", profile).value += tally.decisions
        for plugin, nodes in tally.filter:
            families.evaluations.labels(plugin, "Filter", profile).value += tally.decisions * nodes
        for plugin in tally.pre_score:
            families.evaluations.labels(plugin, "PreScore", profile).value += tally.decisions
        for plugin in tally.score:
            families.evaluations.labels(plugin, "Score", profile).value += tally.choices
        tally.taken()

    def _gather_laps(self, tally: Tally, points: Sequence[str]) -> None:
        families = self._attempts
        readings = np.array(tally.busy).reshape(-1, READINGS).T
        families.algorithm_duration.labels().observe_all(readings[-1] - readings[0])
        took = dict(zip(SHORT_POINTS, laps(readings), strict=True))
        for point in points:
            families.point_duration.labels(point, SUCCESS, tally.profile).observe_all(took[point])
        # Plugins that were asked share their point's time. The others gave a kept answer, so there
        # is no time of theirs to measure.
        close = [end // READINGS - 1 for end in tally.close]
        for point, plugins in tally.live if close else ():
            for plugin in plugins if point in points else ():
                share = took[point][close] / len(plugins)
                families.plugin_duration.labels(plugin, point, SUCCESS).observe_all(share)

    # Attempts.

    def new_point(self, name: str, profile: str) -> PointRecord:
        """A record for an extension point of a profile."""
        record = self.points[name, profile] = PointRecord(name, profile)
        return record

    def plugin_finished(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin is through."""
        self._plugin_times[plugin, point, status].append(seconds)

    def attempt_failed(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended without a node."""
        self._ends[result, profile].append(seconds)

    def algorithm_finished(self, seconds: float) -> None:
        """A node was found, or none."""
        self._algorithm.append(seconds)

    def pod_scheduled(
        self, profile: str, seconds: float, attempts: int, waited: float | None
    ) -> None:
        """A pod was bound."""
        self._bound[profile].append(seconds)
        self._waits[attempts].append(waited)

    def permit_waited(self, status: str, seconds: float) -> None:
        """A pod was held back so long."""
        self._attempts.permit_wait.labels(status).observe(seconds)

    def binding_cycles(self, change: int) -> None:
        """What upstream does in goroutines; here, tasks and a queue before them."""
        self._actions.goroutines.labels(_BINDING).value += change

    # Preemption.

    def preemption_attempted(self) -> None:
        """DefaultPreemption was asked."""
        self._actions.preemptions.add()

    def victims_selected(self, victims: int) -> None:
        """Pods are to leave."""
        self._actions.victims.observe(victims)

    def preemption_finished(self) -> None:
        """Upstream fixes result and duration when it begins: success after no time, always."""
        self._actions.preemption_duration.labels(_SUCCEEDED).observe(0.0)
        self._actions.preemption_runs.labels(_SUCCEEDED).add()

    # The queue.

    def incoming_pods(self, queue: str, event: str) -> None:
        """A pod entered a part of the queue."""
        self._queue.incoming.labels(queue, event).value += 1

    def pending_pods(self, queue: str, change: int) -> None:
        """More or fewer pods wait."""
        self._pending[queue].value += change

    def unschedulable_reason(self, plugin: str, profile: str, change: int) -> None:
        """More or fewer pods were turned away."""
        self._queue.unschedulable.labels(plugin, profile).value += change

    def in_flight_events(self, event: str, change: int) -> None:
        """More or fewer events are kept."""
        self._queue.in_flight.labels(event).value += change

    def hint_given(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A hint answered."""
        self._queue.hint_duration.labels(plugin, event, hint).observe(seconds)

    def pre_enqueue_answered(self, plugin: str, profile: str, code: Code, seconds: float) -> None:
        """A PreEnqueue plugin answered; chance decides whether it counts."""
        if self._random.random() * 100 < SAMPLE_PERCENT:
            self._attempts.plugin_duration.labels(plugin, _PRE_ENQUEUE, code.value).observe(seconds)

    def pre_enqueue_finished(self, profile: str, seconds: float) -> None:
        """Upstream's status is a success here, whoever refused."""
        self._attempts.point_duration.labels(_PRE_ENQUEUE, SUCCESS, profile).observe(seconds)

    def event_handled(self, event: str, seconds: float) -> None:
        """The books follow an event."""
        self._queue.event_duration.labels(event).observe(seconds)

    # Volumes and devices.

    def volume_stage_failed(self, stage: str) -> None:
        """Something broke in the volume binder."""
        self._actions.volume_errors.labels(stage).add()

    def claim_created(self, status: str) -> None:
        """A claim was sent to the API."""
        self._actions.claim_creates.labels(status).add()

    def binding_conditions_waited(
        self, profile: str, driver: str, status: str, seconds: float
    ) -> None:
        """A wait for devices ended."""
        self._actions.conditions_wait.labels(profile, driver, status).observe(seconds)

    def binding_conditions_allocated(self, profile: str, driver: str, status: str) -> None:
        """A device with conditions was waited for."""
        self._actions.conditions_total.labels(profile, driver, status).add()

    # Behind gates; without the gate nobody sees these.

    def group_attempt_finished(self, result: str, profile: str, seconds: float) -> None:
        """An attempt at a whole group ended."""
        self._gated.group_duration.labels(result, profile).observe(seconds)
        self._gated.group_attempts.labels(result, profile).add()

    def group_algorithm_finished(self, seconds: float) -> None:
        """It is known what becomes of a group."""
        self._gated.group_algorithm_duration.observe(seconds)

    def api_calls_pending(self, call_type: str, change: int) -> None:
        """More or fewer calls are not answered yet."""
        self._gated.pending_calls.labels(call_type).add(change)

    def api_call_finished(self, call_type: str, result: str, seconds: float) -> None:
        """A call was answered."""
        self._gated.calls.labels(call_type, result).add()
        self._gated.call_duration.labels(call_type, result).observe(seconds)


def _no_sizes() -> Mapping[str, int]:
    return {}
