"""A scheduler put together: cluster state, cycle, plugins and queue, for one configuration.

Whoever has a clock and a cluster to schedule for starts here: the live scheduler and those in
virtual time.
"""

from collections.abc import Sequence
from random import Random

from moorage.cluster.state import ClusterState
from moorage.config import KubeSchedulerConfiguration
from moorage.config.feature_gates import FeatureGates
from moorage.engine.clock import Clock
from moorage.engine.cycle import Cycle
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.nominated import NominatedPods
from moorage.engine.queue.queue import SchedulingQueue
from moorage.engine.scheduler import Scheduler
from moorage.framework.api_access import ApiAccess
from moorage.framework.extenders import Extender
from moorage.framework.pacing import Pacing
from moorage.framework.plugin import Handle
from moorage.framework.profile import build_profiles
from moorage.framework.registry import Registry
from moorage.model.pod import Pod
from moorage.plugins.defaults import with_devices


def assemble_scheduler(
    config: KubeSchedulerConfiguration,
    registry: Registry,
    gates: FeatureGates,
    clock: Clock,
    *,
    random: Random,
    pacing: Pacing,
    extenders: Sequence[Extender] = (),
    max_in_unschedulable_seconds: float = 300,
    observer: SchedulerObserver | None = None,
) -> Scheduler:
    """A scheduler that knows no cluster yet; without an observer nothing is measured."""
    observer = observer or SchedulerObserver()
    state = ClusterState()
    pods = state.listers.of(Pod)
    nominated = NominatedPods(lambda pod: pods.get(pod.name, pod.namespace))
    cycle = Cycle(state, clock, nominated=nominated, extenders=extenders, random=random)
    handle = with_devices(
        Handle(
            state.listers,
            gates,
            random=random,
            pacing=pacing,
            observer=observer,
            now=clock.now,
            api=ApiAccess(later=True),
        )
    )
    profiles = build_profiles(config, registry, handle)
    queue = SchedulingQueue(
        profiles,
        clock,
        nominated=nominated,
        initial_backoff_seconds=config.pod_initial_backoff_seconds,
        max_backoff_seconds=config.pod_max_backoff_seconds,
        max_in_unschedulable_seconds=max_in_unschedulable_seconds,
        pop_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
        extenders=bool(config.extenders),
        generic_workload=gates.enabled("GenericWorkload"),
        observer=observer,
    )
    return Scheduler(cycle, queue, profiles, handle, observer)
