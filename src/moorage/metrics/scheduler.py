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
from moorage.engine.queue.entities import (
    ACTIVE,
    BACKOFF,
    GATED,
    INCOMPLETE,
    PENDING,
    POD_GROUP,
    UNSCHEDULABLE,
)
from moorage.framework.attempt import AttemptResult
from moorage.framework.profile import Profile
from moorage.framework.status import Code
from moorage.framework.timing import SUCCESS, AttemptTimes, PointDuration
from moorage.metrics.registry import MetricsRegistry

SAMPLE_PERCENT = 10
"""In how many of a hundred attempts each plugin is measured by itself."""

_MISSED = math.log1p(-SAMPLE_PERCENT / 100)
_MOST_ATTEMPTS = 15
_MOST_DURATIONS = 8192
"""With so many durations they are sorted in, when an attempt is next sampled."""
_PRE_ENQUEUE = "PreEnqueue"
_EVALUATIONS = "scheduler_plugin_evaluation_total"
_PLUGIN_DURATION = "scheduler_plugin_execution_duration_seconds"
_POINT_DURATION = "scheduler_framework_extension_point_duration_seconds"


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
        self._registry = registry
        # These are there from the beginning, as upstream; gauges are never reset.
        for queue in (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, INCOMPLETE, PENDING):
            registry.number("scheduler_pending_pods", queue)
        self._cache_sizes: Callable[[], Mapping[str, int]] = dict
        self._queue_sizes: Callable[[], Mapping[str, int]] = dict
        self._entities: Callable[[], Mapping[tuple[str, str], int]] = dict
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
                    self._registry.number(_EVALUATIONS, plugin.name, point, name)

    def sizes_known(
        self,
        cache: Callable[[], Mapping[str, int]],
        queue: Callable[[], Mapping[str, int]],
        entities: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        """The sizes are asked for whenever somebody reads the metrics."""
        self._cache_sizes, self._queue_sizes, self._entities = cache, queue, entities

    def _refresh(self) -> None:
        self._gather()
        for kind, size in self._cache_sizes().items():
            self._registry.set("scheduler_cache_size", size, kind)
        for place, size in self._queue_sizes().items():
            self._registry.set("scheduler_pending_pods", size, place)
        for (place, kind), size in self._entities().items():
            self._registry.set("scheduler_queued_entities", size, place, kind)

    def forget(self) -> None:
        """What was counted is going to be reset, and what lies about with it."""
        self._gather()

    def _gather(self) -> None:
        """Sort in what attempts left since the last time."""
        registry = self._registry
        self._gather_durations()
        for labels, times in self._evaluations.items():
            registry.add(_EVALUATIONS, *labels, by=times)
        algorithm = registry.distribution("scheduler_scheduling_algorithm_duration_seconds")
        algorithm.observe_all(self._algorithm)
        for profile, durations in self._bound.items():
            self._ends[SCHEDULED, profile] = durations
        for end, durations in self._ends.items():
            name = "scheduler_scheduling_attempt_duration_seconds"
            registry.distribution(name, *end).observe_all(durations)
            registry.add("scheduler_schedule_attempts_total", *end, by=len(durations))
        for attempts, waits in self._waits.items():
            tried = registry.distribution("scheduler_pod_scheduling_attempts")
            tried.observe(attempts, len(waits))
            shown = str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
            if known := [waited for waited in waits if waited is not None]:
                name = "scheduler_pod_scheduling_sli_duration_seconds"
                registry.distribution(name, shown).observe_all(known)
        self._evaluations.clear()
        self._algorithm.clear()
        self._ends.clear()
        self._bound.clear()
        self._waits.clear()

    def _gather_durations(self) -> None:
        gathered: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
        for profile, point, plugin, status, seconds in self._durations:
            if plugin:
                gathered[_PLUGIN_DURATION, plugin, point, status].append(seconds)
            else:
                gathered[_POINT_DURATION, point, status, profile].append(seconds)
        self._durations.clear()
        for labels, durations in gathered.items():
            self._registry.distribution(*labels).observe_all(durations)

    # Attempts.

    def attempt_failed(self, result: str, profile: str, seconds: float) -> None:
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
        self._bound[profile].append(seconds)
        self._waits[attempts].append(waited)

    def permit_waited(self, status: str, seconds: float) -> None:
        self._registry.observe("scheduler_permit_wait_duration_seconds", seconds, status)

    def binding_cycles(self, change: int) -> None:
        """What upstream does in goroutines; here, tasks and a queue before them."""
        self._registry.add("scheduler_goroutines", "binding", by=change)

    # Preemption.

    def preemption_attempted(self) -> None:
        self._registry.add("scheduler_preemption_attempts_total")

    def group_preemption_attempted(self, result: str) -> None:
        self._registry.add("scheduler_workload_preemption_attempts_total", result)

    def preemption_evaluated(self, preemptor: str, result: str, seconds: float) -> None:
        name = "scheduler_preemption_evaluation_duration_seconds"
        self._registry.observe(name, seconds, preemptor, result)

    def victims_selected(
        self, preemptor: str, victims: int, pdb_violations: int, disrupted_groups: int
    ) -> None:
        registry, workload = self._registry, preemptor == POD_GROUP
        name = "workload_preemption_victims" if workload else "preemption_victims"
        registry.observe(f"scheduler_{name}", victims)
        if pdb_violations:
            name = "scheduler_preemption_pdb_violations_total"
            registry.add(name, preemptor, by=pdb_violations)
        if disrupted_groups:
            name = "scheduler_preemption_workload_disruptions"
            registry.observe(name, disrupted_groups, preemptor)

    def preemption_finished(self, preemptor: str, result: str, seconds: float) -> None:
        name = "scheduler_preemption_goroutines"
        self._registry.observe(f"{name}_duration_seconds", seconds, result)
        self._registry.add(f"{name}_execution_total", result)
        name = "scheduler_preemption_execution_duration_seconds"
        self._registry.observe(name, seconds, preemptor, result)

    # The queue.

    def incoming_pods(self, queue: str, event: str, pods: int) -> None:
        self._registry.add("scheduler_queue_incoming_pods_total", queue, event, by=pods)

    def incoming_entity(self, queue: str, event: str, kind: str) -> None:
        self._registry.add("scheduler_queue_incoming_entities_total", queue, event, kind)

    def unschedulable_reason(self, plugin: str, profile: str, change: int) -> None:
        self._registry.add("scheduler_unschedulable_pods", plugin, profile, by=change)

    def in_flight_events(self, event: str, change: int) -> None:
        self._registry.add("scheduler_inflight_events", event, by=change)

    def hint_given(self, plugin: str, event: str, hint: str, seconds: float, pods: int) -> None:
        name = "scheduler_queueing_hint_execution_duration_seconds"
        self._registry.observe(name, seconds, plugin, event, hint, times=pods)

    def pre_enqueue_answered(
        self, plugin: str, profile: str, code: Code, seconds: float, pods: int
    ) -> None:
        """A PreEnqueue plugin answered; chance decides whether it counts."""
        if self._random.random() * 100 < SAMPLE_PERCENT:
            labels = (plugin, _PRE_ENQUEUE, code.value)
            self._registry.observe(_PLUGIN_DURATION, seconds, *labels, times=pods)

    def pre_enqueue_finished(self, profile: str, seconds: float, pods: int) -> None:
        """Upstream's status is a success here, whoever refused."""
        labels = (_PRE_ENQUEUE, SUCCESS, profile)
        self._registry.observe(_POINT_DURATION, seconds, *labels, times=pods)

    def event_handled(self, event: str, seconds: float) -> None:
        self._registry.observe("scheduler_event_handling_duration_seconds", seconds, event)

    # Volumes and devices.

    def volume_stage_failed(self, stage: str) -> None:
        self._registry.add("scheduler_volume_scheduling_stage_error_total", stage)

    def claim_created(self, status: str) -> None:
        made = ("dynamic_resource_allocation_resourceclaim_creates_total", status)
        self._registry.add(*made, "false", "", "Pod")  # only for extended resources of pods

    def binding_conditions_waited(
        self, profile: str, driver: str, status: str, seconds: float
    ) -> None:
        name = "scheduler_dra_bindingconditions_wait_duration_seconds"
        self._registry.observe(name, seconds, profile, driver, status)

    def binding_conditions_allocated(self, profile: str, driver: str, status: str) -> None:
        name = "scheduler_dra_bindingconditions_allocations_total"
        self._registry.add(name, profile, driver, status)

    # Behind gates; without the gate nobody sees these.

    def group_attempt_finished(self, result: str, profile: str, seconds: float) -> None:
        name = "scheduler_podgroup_scheduling_attempt_duration_seconds"
        self._registry.observe(name, seconds, result, profile)
        self._registry.add("scheduler_podgroup_schedule_attempts_total", result, profile)

    def group_algorithm_finished(self, seconds: float) -> None:
        name = "scheduler_podgroup_scheduling_algorithm_duration_seconds"
        self._registry.observe(name, seconds)

    def placements_generated(self, profile: str, placements: int) -> None:
        self._registry.add("scheduler_generated_placements_total", profile, by=placements)

    def placement_evaluated(self, result: str, profile: str, seconds: float) -> None:
        self._registry.add("scheduler_placement_evaluations_total", result, profile)
        name = "scheduler_placement_evaluation_duration_seconds"
        self._registry.observe(name, seconds, result, profile)

    def api_calls_pending(self, call_type: str, change: int) -> None:
        self._registry.add("scheduler_pending_async_api_calls", call_type, by=change)

    def api_call_finished(self, call_type: str, result: str, seconds: float) -> None:
        name = "scheduler_async_api_call_execution"
        self._registry.add(f"{name}_total", call_type, result)
        self._registry.observe(f"{name}_duration_seconds", seconds, call_type, result)
