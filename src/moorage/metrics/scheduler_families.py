"""The families that the scheduler writes to, in groups; `metrics.yaml` defines them."""

from moorage.metrics.registry import MetricsRegistry


class AttemptFamilies:
    """About attempts, the plugins in them, and pods."""

    def __init__(self, registry: MetricsRegistry) -> None:
        counter, histogram = registry.counter, registry.histogram
        self.attempts = counter("scheduler_schedule_attempts_total")
        self.attempt_duration = histogram("scheduler_scheduling_attempt_duration_seconds")
        self.algorithm_duration = histogram("scheduler_scheduling_algorithm_duration_seconds")
        self.point_duration = histogram("scheduler_framework_extension_point_duration_seconds")
        self.plugin_duration = histogram("scheduler_plugin_execution_duration_seconds")
        self.evaluations = counter("scheduler_plugin_evaluation_total")
        self.permit_wait = histogram("scheduler_permit_wait_duration_seconds")
        self.sli_duration = histogram("scheduler_pod_scheduling_sli_duration_seconds")
        self.pod_attempts = histogram("scheduler_pod_scheduling_attempts")
        counter("scheduler_pod_scheduled_after_flush_total")


class QueueFamilies:
    """About the queue, the cache and what comes in."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self.pending = registry.gauge("scheduler_pending_pods")
        self.incoming = registry.counter("scheduler_queue_incoming_pods_total")
        self.unschedulable = registry.gauge("scheduler_unschedulable_pods")
        self.event_duration = registry.histogram("scheduler_event_handling_duration_seconds")
        self.cache_size = registry.gauge("scheduler_cache_size")
        self.hint_duration = registry.histogram(
            "scheduler_queueing_hint_execution_duration_seconds"
        )
        self.in_flight = registry.gauge("scheduler_inflight_events")


class ActionFamilies:
    """About what follows from decisions: preemption, binding, volumes and devices."""

    def __init__(self, registry: MetricsRegistry) -> None:
        counter, histogram = registry.counter, registry.histogram
        self.victims = histogram("scheduler_preemption_victims")
        self.preemptions = counter("scheduler_preemption_attempts_total")
        self.preemption_duration = histogram("scheduler_preemption_goroutines_duration_seconds")
        self.preemption_runs = counter("scheduler_preemption_goroutines_execution_total")
        self.claim_creates = counter("scheduler_resourceclaim_creates_total")
        self.conditions_total = counter("scheduler_dra_bindingconditions_allocations_total")
        self.conditions_wait = histogram("scheduler_dra_bindingconditions_wait_duration_seconds")
        self.goroutines = registry.gauge("scheduler_goroutines")
        counter("scheduler_volume_binder_cache_requests_total")
        self.volume_errors = counter("scheduler_volume_scheduling_stage_error_total")


class GatedFamilies:
    """About features that are off by default, and upstream's batching, which stays empty."""

    def __init__(self, registry: MetricsRegistry) -> None:
        counter, histogram = registry.counter, registry.histogram
        self.call_duration = histogram("scheduler_async_api_call_execution_duration_seconds")
        self.calls = counter("scheduler_async_api_call_execution_total")
        self.pending_calls = registry.gauge("scheduler_pending_async_api_calls")
        self.group_attempts = counter("scheduler_podgroup_schedule_attempts_total")
        self.group_duration = histogram("scheduler_podgroup_scheduling_attempt_duration_seconds")
        self.group_algorithm_duration = histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds"
        )
        counter("scheduler_batch_attempts_total")
        counter("scheduler_batch_cache_flushed_total")
        histogram("scheduler_get_node_hint_duration_seconds")
        histogram("scheduler_store_schedule_results_duration_seconds")
