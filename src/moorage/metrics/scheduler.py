"""What the scheduler and its queue tell, put into kube-scheduler's metrics.

Owns the way from an event of the engine to labels and values. It is called for every pod many
times, so the values that are needed all the time are kept at hand.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from random import Random

from moorage.engine.observer import SCHEDULED, SchedulerObserver
from moorage.engine.queue.queued_pod import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE
from moorage.framework.attempt import AttemptResult
from moorage.framework.profile import Profile
from moorage.framework.status import Code
from moorage.framework.timing import SUCCESS, AttemptTimes, PointDuration
from moorage.metrics.registry import MetricsRegistry
from moorage.metrics.scheduler_families import (
    ActionFamilies,
    AttemptFamilies,
    GatedFamilies,
    QueueFamilies,
)

SAMPLE_PERCENT = 10
"""In how many of a hundred attempts each plugin is measured by itself."""

_MISSED = math.log1p(-SAMPLE_PERCENT / 100)
_MOST_ATTEMPTS = 15
_MOST_DURATIONS = 32_768
"""With so many durations they are sorted in, when an attempt is next sampled."""
_SUCCEEDED = "success"
_BINDING = "binding"
_PRE_ENQUEUE = "PreEnqueue"


class SchedulerMetrics(SchedulerObserver):
    """Records everything; `now` is a stopwatch, `random` picks the attempts to look at closely."""

    def __init__(
        self,
        registry: MetricsRegistry,
        *,
        now: Callable[[], float] = time.perf_counter,
        random: Random | None = None,
    ) -> None:
        self._now = now
        self._random = random or Random()
        self._until_sample = self._gap()
        self._attempts = AttemptFamilies(registry)
        self._queue = QueueFamilies(registry)
        self._actions = ActionFamilies(registry)
        self._gated = GatedFamilies(registry)
        # These are there from the beginning, as upstream; gauges are never reset.
        for queue in (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED):
            self._queue.pending.labels(queue)
        self._cache_sizes = self._queue_sizes = _no_sizes
        # What attempts left here. Sorting it in at once, between the work on two pods, was measured
        # to cost nearly twice as much as doing it for many pods together.
        self._durations: list[PointDuration] = []
        self._evaluations: Counter[tuple[str, str, str]] = Counter()
        """By plugin, extension point and profile."""
        self._algorithm: list[float] = []
        self._ends: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._bound: defaultdict[str, list[float]] = defaultdict(list)
        self._waits: defaultdict[int, list[float | None]] = defaultdict(list)
        registry.before_render(self._refresh)

    # Measuring.

    def time(self) -> float:
        """The stopwatch's reading."""
        return self._now()

    def attempt_begins(self, profile: str) -> AttemptTimes:
        """A running stopwatch; chance decides whether each plugin is timed by itself."""
        self._until_sample -= 1
        sampled = not self._until_sample
        if sampled:
            self._until_sample = self._gap()
            if len(self._durations) >= _MOST_DURATIONS:
                self._gather()
        return AttemptTimes(profile, self._now, self._durations, sampled=sampled)

    def _gap(self) -> int:
        """How many attempts on from one sampled attempt the next one is.

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

    def sizes_known(
        self, cache: Callable[[], Mapping[str, int]], queue: Callable[[], Mapping[str, int]]
    ) -> None:
        """The sizes are asked for whenever somebody reads the metrics."""
        self._cache_sizes, self._queue_sizes = cache, queue

    def _refresh(self) -> None:
        self._gather()
        for kind, size in self._cache_sizes().items():
            self._queue.cache_size.labels(kind).set(size)
        for place, size in self._queue_sizes().items():
            self._queue.pending.labels(place).set(size)

    def forget(self) -> None:
        """What was counted is going to be reset, and what lies about with it."""
        self._gather()

    def _gather(self) -> None:
        """Sort in what attempts left since the last time."""
        families = self._attempts
        self._gather_durations()
        for (plugin, point, profile), times in self._evaluations.items():
            families.evaluations.labels(plugin, point, profile).value += times
        families.algorithm_duration.labels().observe_all(self._algorithm)
        for profile, durations in self._bound.items():
            self._ends[SCHEDULED, profile] = durations
        for (result, profile), durations in self._ends.items():
            families.attempt_duration.labels(result, profile).observe_all(durations)
            families.attempts.labels(result, profile).value += len(durations)
        for attempts, waits in self._waits.items():
            families.pod_attempts.labels().observe(attempts, len(waits))
            shown = str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
            if known := [waited for waited in waits if waited is not None]:
                families.sli_duration.labels(shown).observe_all(known)
        self._evaluations.clear()
        self._algorithm.clear()
        self._ends.clear()
        self._bound.clear()
        self._waits.clear()

    def _gather_durations(self) -> None:
        families = self._attempts
        points: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
        plugins: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
        for profile, point, plugin, status, seconds in self._durations:
            if plugin:
                plugins[plugin, point, status].append(seconds)
            else:
                points[point, status, profile].append(seconds)
        self._durations.clear()
        for labels, durations in points.items():
            families.point_duration.labels(*labels).observe_all(durations)
        for labels, durations in plugins.items():
            families.plugin_duration.labels(*labels).observe_all(durations)

    # Attempts.

    def attempt_failed(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended without a node."""
        self._ends[result, profile].append(seconds)

    def algorithm_finished(self, times: AttemptTimes, result: AttemptResult | None) -> None:
        """A node was found, or none: count who was asked, and about how many nodes."""
        self._algorithm.append(times.seconds())
        if result is None:
            return
        profile, before, counts = times.profile, result.before, self._evaluations
        for plugin in before.ran:
            if plugin not in before.skipped:
                counts[plugin, "PreFilter", profile] += 1
        if result.outcome is not None:
            for plugin, nodes in result.outcome.asked():
                counts[plugin, "Filter", profile] += nodes
        if result.scores is not None:
            skipped = result.scores.skipped
            for scorer in result.profile.pre_score:
                if scorer.name not in skipped:
                    counts[scorer.name, "PreScore", profile] += 1
            for part in result.scores.parts:
                counts[part.plugin, "Score", profile] += len(part.raw)

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
        """The cluster state follows an event."""
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
