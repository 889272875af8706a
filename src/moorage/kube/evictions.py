"""Evictions: pods that leave a node so that a more important one can have it.

A victim that is not bound yet is turned away in memory; any other is marked and deleted through the
API, by its uid: requests may wait long for the client's rate, and by then another pod may have the
victim's name. A victim that is terminating or gone by then is left alone. All but the last victim
go at once, the last one alone: until then the preemptor stays out of the queue, and the last
deletion lets it in.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from moorage import log_lines
from moorage.engine.actions import Eviction
from moorage.engine.scheduler import Scheduler
from moorage.errors import ApiError, MoorageError, NotNeededError
from moorage.framework.preemptions import is_staying
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
        self._pods = scheduler.state.listers.of(Pod)
        self._preempting = scheduler.handle.preempting
        self.preparing: dict[str, asyncio.Task[Status | None]] = {}
        """Pods in PreBind, by uid: they can be turned away without touching the API."""
        self.cancelled: set[str] = set()

    async def carry_out(self, eviction: Eviction) -> None:
        """Make room; if that fails the preemptor tries again at once."""
        staying = {victim.uid: victim for victim in eviction.victims}
        started = self._scheduler.observer.time()
        result, where = "success", eviction.node_name
        log_lines.PREEMPTION_BEGINS(eviction.cause, where, eviction.chosen, len(staying))
        try:
            if not await self._clear_lower_nominations(eviction):
                result = "error"
            *others, last = eviction.victims
            await self._evict_all(others, eviction, staying)
            # The event of its deletion must find the preemptor let in, even before the answer.
            self._preempting.await_last(eviction.cause.metadata.uid, last)
            if not await self._evict(last, eviction, staying):
                # Its event came while the pod was not in the queue, and no other one will come.
                self._scheduler.preemption_done(eviction.cause)  # activating asks the gate
                self._scheduler.queue.activate(eviction.waiting)
        except MoorageError as error:
            result = "error"
            log_lines.PREEMPTION_FAILED(error, eviction.cause)
        finally:
            self._scheduler.preemption_done(eviction.cause)
            if staying:
                self._scheduler.eviction_failed(eviction, staying.values())
            log_lines.PREEMPTION_ENDS(eviction.cause, where, result)
            observer = self._scheduler.observer
            observer.preemption_finished(eviction.what, result, observer.time() - started)
            self._wake()

    async def _clear_lower_nominations(self, eviction: Eviction) -> bool:
        """Less important pods that waited for this node must look for another; do all of them?"""
        waiting, cleared = self._scheduler.cycle.nominated, True
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
                cleared = False
                log.error("the nomination of pod %s could not be cleared: %s", pod.key, error)
        return cleared

    async def _evict_all(
        self, victims: Iterable[Pod], eviction: Eviction, staying: dict[str, Pod]
    ) -> None:
        """Evict victims, all at once; the first that cannot be evicted stops the others."""
        try:
            async with asyncio.TaskGroup() as group:
                for victim in victims:
                    group.create_task(self._evict(victim, eviction, staying))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _evict(self, victim: Pod, eviction: Eviction, staying: dict[str, Pod]) -> bool:
        """Evict a victim; False if no event is to come: it was gone, or not even bound."""
        about = (eviction.cause, victim, eviction.node_name)
        in_memory = self._turn_away(victim, eviction)
        if not in_memory:
            try:
                await self._delete(victim, eviction)
            except NotNeededError:
                log_lines.VICTIM_GONE(*about)
                del staying[victim.uid]
                known = self._known(victim)
                return known is not None and known.terminating
            except ApiError as error:
                if error.is_not_found or error.is_for_another_uid:
                    log_lines.VICTIM_GONE(*about)
                    del staying[victim.uid]
                    return False
                raise
            log_lines.VICTIM_PREEMPTED(*about)
        del staying[victim.uid]
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
        return not in_memory

    async def _delete(self, victim: Pod, eviction: Eviction) -> None:
        """Mark and delete this very pod, never a later one of the same name."""

        def needed() -> bool:
            return is_staying(victim, self._pods)

        status = disruption_target(
            self._known(victim) or victim, eviction.scheduler_name, eviction.what, self._timer.now()
        )
        name, namespace, uid = victim.name, victim.namespace, victim.uid
        if status is not None:
            await self._client.patch_pod_status(namespace, name, status, uid=uid, needed=needed)
        await self._client.delete(resource_for("Pod"), namespace, name, uid=uid, needed=needed)

    def _known(self, victim: Pod) -> Pod | None:
        """The victim as the watch last showed it; None if it is gone."""
        known = self._pods.get(victim.name, victim.namespace)
        return known if known is not None and known.uid == victim.uid else None

    def _turn_away(self, victim: Pod, eviction: Eviction) -> bool:
        """Stop a victim that is not bound yet; False if it is too late for that."""
        about = (eviction.what, eviction.cause, victim, eviction.node_name)
        waiting = self._scheduler.waiting.get(victim.uid)
        if waiting is not None:
            log_lines.WAITING_PREEMPTED(*about)
            waiting.reject("DefaultPreemption", "preempted", Code.ERROR)
            return True
        work = self.preparing.get(victim.uid)
        if work is not None and not work.done():
            self.cancelled.add(victim.uid)
            log_lines.PREPARING_PREEMPTED(*about)
            work.cancel()
            return True
        return False
