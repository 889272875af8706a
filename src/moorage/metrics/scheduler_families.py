"""The families of kube-scheduler's own metrics: names, labels, buckets and HELP, as upstream's.

Owns the definitions and which gate brings which; recording is `scheduler`'s. A test compares all of
it with what the real kube-scheduler shows.
"""

from collections.abc import Callable

from moorage.metrics.families import Counter, Gauge, Histogram, exponential
from moorage.metrics.registry import MetricsRegistry

GateState = Callable[[str], bool]

_MILLISECONDS = exponential(0.001, 2, 15)
_TENTHS_OF_MILLISECONDS = exponential(0.0001, 2, 12)
_MICROSECONDS = exponential(0.00001, 1.5, 20)
_HINTS = exponential(0.00001, 2, 12)
_SLI = exponential(0.01, 2, 20)


class AttemptFamilies:
    """About attempts and the plugins in them."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._register_attempts(registry)
        self._register_plugins(registry)
        self._register_pods(registry)

    def _register_attempts(self, registry: MetricsRegistry) -> None:
        add = registry.register
        self.attempts = add(
            Counter(
                "scheduler_schedule_attempts_total",
                "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod "
                "could not be scheduled, while 'error' means an internal scheduler problem.",
                ("result", "profile"),
                "STABLE",
            )
        )
        self.attempt_duration = add(
            Histogram(
                "scheduler_scheduling_attempt_duration_seconds",
                "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
                ("result", "profile"),
                "STABLE",
                buckets=_MILLISECONDS,
            )
        )
        self.algorithm_duration = add(
            Histogram(
                "scheduler_scheduling_algorithm_duration_seconds",
                "Scheduling algorithm latency in seconds",
                buckets=_MILLISECONDS,
            )
        )

    def _register_plugins(self, registry: MetricsRegistry) -> None:
        add = registry.register
        self.point_duration = add(
            Histogram(
                "scheduler_framework_extension_point_duration_seconds",
                "Latency for running all plugins of a specific extension point.",
                ("extension_point", "status", "profile"),
                "STABLE",
                buckets=_TENTHS_OF_MILLISECONDS,
            )
        )
        self.plugin_duration = add(
            Histogram(
                "scheduler_plugin_execution_duration_seconds",
                "Duration for running a plugin at a specific extension point.",
                ("plugin", "extension_point", "status"),
                buckets=_MICROSECONDS,
            )
        )
        self.evaluations = add(
            Counter(
                "scheduler_plugin_evaluation_total",
                "Number of attempts to schedule pods by each plugin and the extension point "
                "(available only in PreFilter, Filter, PreScore, and Score).",
                ("plugin", "extension_point", "profile"),
                "BETA",
            )
        )
        self.permit_wait = add(
            Histogram(
                "scheduler_permit_wait_duration_seconds",
                "Duration of waiting on permit.",
                ("result",),
                "BETA",
                buckets=_MILLISECONDS,
            )
        )

    def _register_pods(self, registry: MetricsRegistry) -> None:
        add = registry.register
        self.sli_duration = add(
            Histogram(
                "scheduler_pod_scheduling_sli_duration_seconds",
                "E2e latency for a pod being scheduled, from the time the pod enters the "
                "scheduling queue and might involve multiple scheduling attempts.",
                ("attempts",),
                "BETA",
                buckets=_SLI,
            )
        )
        self.pod_attempts = add(
            Histogram(
                "scheduler_pod_scheduling_attempts",
                "Number of attempts to successfully schedule a pod.",
                (),
                "STABLE",
                buckets=exponential(1, 2, 5),
            )
        )
        # Always 0, as upstream: what the flush leaves on a pod is lost before the pod is bound.
        self.after_flush = add(
            Counter(
                "scheduler_pod_scheduled_after_flush_total",
                "Number of pods that were successfully scheduled after being flushed from "
                "unschedulablePods due to timeout. This metric helps detect potential queueing "
                "hint misconfigurations or event handling issues.",
            )
        )


class QueueFamilies:
    """About the queue, the cache and what comes in."""

    def __init__(self, registry: MetricsRegistry, enabled: GateState) -> None:
        self._register_pods(registry)
        self._register_events(registry, enabled)

    def _register_pods(self, registry: MetricsRegistry) -> None:
        add = registry.register
        self.pending = add(
            Gauge(
                "scheduler_pending_pods",
                "Number of pending pods, by the queue type. 'active' means number of pods in "
                "activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number "
                "of pods in unschedulablePods that the scheduler attempted to schedule and failed; "
                "'gated' is the number of unschedulable pods that the scheduler never attempted to "
                "schedule because they are gated.",
                ("queue",),
                "STABLE",
            )
        )
        self.incoming = add(
            Counter(
                "scheduler_queue_incoming_pods_total",
                "Number of pods added to scheduling queues by event and queue type.",
                ("queue", "event"),
                "STABLE",
            )
        )
        self.unschedulable = add(
            Gauge(
                "scheduler_unschedulable_pods",
                "The number of unschedulable pods broken down by plugin name. A pod will increment "
                "the gauge for all plugins that caused it to not schedule and so this metric have "
                "meaning only when broken down by plugin.",
                ("plugin", "profile"),
                "BETA",
            )
        )

    def _register_events(self, registry: MetricsRegistry, enabled: GateState) -> None:
        add = registry.register
        self.event_duration = add(
            Histogram(
                "scheduler_event_handling_duration_seconds",
                "Event handling latency in seconds.",
                ("event",),
                buckets=_TENTHS_OF_MILLISECONDS,
            )
        )
        self.cache_size = add(
            Gauge(
                "scheduler_cache_size",
                "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
                ("type",),
            )
        )
        self.hint_duration = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            ("plugin", "event", "hint"),
            buckets=_MICROSECONDS,
        )
        self.in_flight = Gauge(
            "scheduler_inflight_events",
            "Number of events currently tracked in the scheduling queue.",
            ("event",),
        )
        if enabled("SchedulerQueueingHints"):
            add(self.hint_duration)
            add(self.in_flight)


class ActionFamilies:
    """About what follows from decisions: preemption, binding, volumes and devices."""

    def __init__(self, registry: MetricsRegistry, enabled: GateState) -> None:
        self._register_preemption(registry, enabled)
        self._register_devices(registry, enabled)
        self.goroutines = registry.register(
            Gauge(
                "scheduler_goroutines",
                "Number of running goroutines split by the work they do such as binding.",
                ("operation",),
                "BETA",
            )
        )
        self.binder_cache = registry.register(
            Counter(
                "scheduler_volume_binder_cache_requests_total",
                "Total number for request volume binding cache",
                ("operation",),
            )
        )
        self.volume_errors = registry.register(
            Counter(
                "scheduler_volume_scheduling_stage_error_total",
                "Volume scheduling stage error count",
                ("operation",),
            )
        )

    def _register_preemption(self, registry: MetricsRegistry, enabled: GateState) -> None:
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            (),
            "STABLE",
            buckets=exponential(1, 2, 7),
        )
        self.preemptions = Counter(
            "scheduler_preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
            (),
            "STABLE",
        )
        self.preemption_duration = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Duration in seconds for running goroutines for the preemption.",
            ("result",),
            buckets=_SLI,
        )
        self.preemption_runs = Counter(
            "scheduler_preemption_goroutines_execution_total",
            "Number of preemption goroutines executed.",
            ("result",),
        )
        registry.register(self.victims)
        registry.register(self.preemptions)
        if enabled("SchedulerAsyncPreemption"):
            registry.register(self.preemption_duration)
            registry.register(self.preemption_runs)

    def _register_devices(self, registry: MetricsRegistry, enabled: GateState) -> None:
        self.claim_creates = Counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests within scheduler",
            ("status",),
        )
        self.conditions_total = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per "
            "scheduling attempt",
            ("profile", "driver", "status"),
        )
        self.conditions_wait = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            ("profile", "driver", "status"),
            buckets=exponential(0.1, 2, 14),
        )
        if enabled("DRAExtendedResource"):
            registry.register(self.claim_creates)
        if enabled("DRADeviceBindingConditions"):
            registry.register(self.conditions_total)
            registry.register(self.conditions_wait)


class GatedFamilies:
    """About features that are off by default: pod groups and asynchronous API calls."""

    def __init__(self, registry: MetricsRegistry, enabled: GateState) -> None:
        self._register_calls(registry, enabled)
        self._register_groups(registry, enabled)

    def _register_calls(self, registry: MetricsRegistry, enabled: GateState) -> None:
        self.call_duration = Histogram(
            "scheduler_async_api_call_execution_duration_seconds",
            "Duration in seconds for executing API call in the async dispatcher.",
            ("call_type", "result"),
            buckets=_MILLISECONDS,
        )
        self.calls = Counter(
            "scheduler_async_api_call_execution_total",
            "Total number of API calls executed by the async dispatcher.",
            ("call_type", "result"),
        )
        self.pending_calls = Gauge(
            "scheduler_pending_async_api_calls",
            "Number of API calls currently pending in the async queue.",
            ("call_type",),
        )
        if enabled("SchedulerAsyncAPICalls"):
            registry.register(self.calls)
            registry.register(self.call_duration)
            registry.register(self.pending_calls)

    def _register_groups(self, registry: MetricsRegistry, enabled: GateState) -> None:
        self.group_attempts = Counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod "
            "group could not be scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self.group_duration = Histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            buckets=_MILLISECONDS,
        )
        self.group_algorithm_duration = Histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Pod group scheduling algorithm latency in seconds",
            buckets=_MILLISECONDS,
        )
        if enabled("GenericWorkload"):
            registry.register(self.group_attempts)
            registry.register(self.group_duration)
            registry.register(self.group_algorithm_duration)


def register_batching(registry: MetricsRegistry) -> None:
    """Metrics of upstream's opportunistic batching, which stay empty.

    Equal pods share answers here (`framework.fast_path`), without hints that could be given, used
    or flushed. The names are taken all the same, so that nobody else takes them.
    """
    registry.register(
        Counter(
            "scheduler_batch_attempts_total",
            "Counts of results when we attempt to use batching.",
            ("profile", "result"),
        )
    )
    registry.register(
        Counter(
            "scheduler_batch_cache_flushed_total",
            "Counts of cache flushes by reason.",
            ("profile", "reason"),
        )
    )
    registry.register(
        Histogram(
            "scheduler_get_node_hint_duration_seconds",
            "Latency for getting a node hint.",
            ("hinted", "profile"),
            buckets=_HINTS,
        )
    )
    registry.register(
        Histogram(
            "scheduler_store_schedule_results_duration_seconds",
            "Latency for getting a no.",
            ("profile",),
            buckets=_HINTS,
        )
    )
