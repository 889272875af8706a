"""Evictions: pods that leave a node so that a more important one can have it.

A victim that is not bound yet is turned away in memory; any other is marked and deleted through the
API. All but the last victim go at once, the last one alone: until then the preemptor is kept out of
the queue, and the last deletion lets it in.
"""

import asyncio
import logging
from collections.abc import Callable

from moorage.engine.scheduler import Eviction, Scheduler
from moorage.errors import ApiError, MoorageError
from moorage.framework.status import Code, Status
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.pod_status import disruption_target, nominated
from moorage.kube.resources import resource_for
from moorage.kube.timing import Timer
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


class Evictions:
    """Carries evictions out."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: KubeClient,
        recorder: EventRecorder,
        timer: Timer,
        wake: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._client = client
        self._recorder = recorder
        self._timer = timer
        self._wake = wake
        self.preparing: dict[str, asyncio.Task[Status | None]] = {}
        """Pods in PreBind, by uid: they can be turned away without touching the API."""
        self.cancelled: set[str] = set()

    async def carry_out(self, eviction: Eviction) -> None:
        """Make room; if that fails the preemptor tries again at once."""
        try:
            await self._clear_lower_nominations(eviction)
            *others, last = [victim for victim in eviction.victims if not victim.terminating]
            await asyncio.gather(*(self._evict(victim, eviction) for victim in others))
            # Before the last deletion, not after it: its event must find the pod let in.
            self._scheduler.preemption_done(eviction.cause)
            if not await self._evict(last, eviction):
                # Its event came while the pod was kept out, and no other one will come.
                self._scheduler.queue.activate(eviction.members or (eviction.preemptor,))
        except MoorageError as error:
            log.error(
                "room for %s %s could not be made: %s", eviction.what, eviction.cause.key, error
            )
            self._scheduler.preemption_done(eviction.cause)  # activating asks the gate
            self._scheduler.queue.activate(eviction.members or (eviction.preemptor,))
        finally:
            self._scheduler.preemption_done(eviction.cause)
            self._scheduler.observer.preemption_finished()
            self._wake()

    async def _clear_lower_nominations(self, eviction: Eviction) -> None:
        """Less important pods that waited for this node must look for another."""
        waiting = self._scheduler.cycle.nominated
        for pod in list(waiting.on_node(eviction.node_name)):
            if pod.priority >= eviction.priority:
                continue
            waiting.remove(pod)
            if not pod.status.nominated_node_name:
                continue
            try:
                await self._client.patch_pod_status(pod.namespace, pod.name, nominated(""))
            except MoorageError as error:
                # Not worth giving the eviction up for.
                log.error("the nomination of pod %s could not be cleared: %s", pod.key, error)

    async def _evict(self, victim: Pod, eviction: Eviction) -> bool:
        """Have a victim go; False if it had gone already."""
        in_memory = self._turn_away(victim)
        if not in_memory:
            status = disruption_target(
                victim, eviction.scheduler_name, eviction.what, self._timer.now()
            )
            try:
                await self._client.patch_pod_status(victim.namespace, victim.name, status)
                await self._client.delete(resource_for("Pod"), victim.namespace, victim.name)
            except ApiError as error:
                if error.is_not_found:
                    return False
                raise
        self._recorder.event(
            victim,
            "Normal",
            "Preempted",
            "Preempting",
            f"Preempted by {eviction.what} {eviction.cause.metadata.uid} "
            f"on node {eviction.node_name}" + (" (in kube-scheduler memory)." if in_memory else ""),
            controller=eviction.scheduler_name,
            related=eviction.group,
        )
        return True

    def _turn_away(self, victim: Pod) -> bool:
        """Stop a victim that is not bound yet; False if it is too late for that."""
        waiting = self._scheduler.waiting.get(victim.uid)
        if waiting is not None:
            waiting.reject("DefaultPreemption", "preempted", Code.ERROR)
            return True
        work = self.preparing.get(victim.uid)
        if work is not None and not work.done():
            self.cancelled.add(victim.uid)
            work.cancel()
            return True
        return False
