"""Carries out in the API what the scheduler decided.

Bindings run in a bounded number of workers, so that a burst of decisions does not become a burst of
tasks: as many as the API server takes requests at once, beside those that wait for something else.
A pod that waits on Permit waits outside of them. Everything else (events, status, evictions) never
holds a binding up. Outcomes go back to the scheduler; those that change the cluster state wait
until no pod is being decided.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any

from moorage import log_lines
from moorage.engine.actions import Binding, Eviction, Failure, SkippedDeletion
from moorage.engine.group_attempt import GroupConditionUpdate
from moorage.engine.observer import SchedulerObserver
from moorage.engine.scheduler import Scheduler
from moorage.errors import MoorageError, reason_of
from moorage.framework.api_access import Work
from moorage.framework.binding import after_binding, bind_pod, prepare, takes_time, wait_on_permit
from moorage.framework.guard import FAULTS, guard, has_work
from moorage.framework.plugin import DeferringPlugin
from moorage.framework.status import Code, Status
from moorage.framework.timing import SUCCESS
from moorage.kube import requests
from moorage.kube.api_port import KubeApiPort
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.evictions import Evictions
from moorage.kube.pod_status import group_status, nominated, scheduling_failed
from moorage.kube.resources import resource_for
from moorage.kube.timing import Timer
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

MOST_WORKERS = 64
# Upstream's number, in logs, for a nomination that replaces what the pod's status says.
_OVERRIDE = 1
_THE_END = Status(Code.ERROR, ("the scheduler ends",))
_DEFAULT_BINDER = "DefaultBinder"


async def _always() -> None:
    """Where attempts are never met in the middle."""


class Executor:
    """Carries decisions out; `between_attempts` waits until no pod is being decided."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: KubeClient,
        recorder: EventRecorder,
        timer: Timer,
        wake: Callable[[], None],
        between_attempts: Callable[[], Awaitable[None]] = _always,
    ) -> None:
        self._scheduler = scheduler
        self._client = client
        self._recorder = recorder
        self._timer = timer
        self._wake = wake
        self._between_attempts = between_attempts
        self._api = KubeApiPort(client, scheduler.state, timer, recorder)
        self._evictions = Evictions(scheduler, client, recorder, timer, wake)
        self._bindings: deque[Binding] = deque()
        self._most_workers = MOST_WORKERS
        self._workers: set[asyncio.Task[None]] = set()
        # What workers carry that just wait for others than our client.
        self._waiting_elsewhere: set[Binding] = set()
        self._other_tasks: set[asyncio.Task[None]] = set()
        self._ending = False
        # What is still to be written of pods that could not be placed, by uid.
        self._statuses: dict[str, dict[str, Any]] = {}
        self._nominates = scheduler.handle.gates.enabled("NominatedNodeNameForExpectation")

    @property
    def busy(self) -> bool:
        """Is anything on its way?"""
        return bool(self._workers or self._bindings or self._other_tasks)

    def carry_out(self) -> None:
        """Start everything in the scheduler's outbox."""
        outbox = self._scheduler.outbox
        while outbox:
            match action := outbox.popleft():
                case Binding():
                    self._start(action)
                case Failure():
                    self._report(action)
                case Eviction():
                    self._spawn(self._evictions.carry_out(action))
                case GroupConditionUpdate():
                    self._spawn(self._write_group_status(action))
                case SkippedDeletion():
                    self._recorder.event(
                        action.pod,
                        "Warning",
                        "FailedScheduling",
                        "Scheduling",
                        f"skip schedule deleting pod: {action.pod.key}",
                        controller=action.scheduler_name,
                    )

        self._start_workers()
        self._flush_plugins()

    def _flush_plugins(self) -> None:
        """Write what plugins left in points that must not write themselves."""
        for plugin in self._scheduler.deferring.values():
            if has_work(plugin):
                self._spawn(self._flush(plugin))
        later = self._scheduler.handle.api.later
        while later:
            self._spawn(_run_later(later.popleft()))

    async def _flush(self, plugin: DeferringPlugin) -> None:
        try:
            with guard(plugin, "Flush"):
                for failure in await plugin.flush(self._api):
                    log.error("plugin %s: %s", plugin.name, failure)
        except MoorageError as error:
            log.error("plugin %s could not write what it left: %s", plugin.name, error)

    def _start(self, binding: Binding) -> None:
        self._scheduler.observer.binding_cycles(1)
        if binding.waiting is None:
            self._bindings.append(binding)
        else:
            self._spawn(self._after_permit(binding))

    async def _nominate(self, binding: Binding) -> None:
        """Let others (an autoscaler, say) know where the pod is going to be."""
        pod = binding.pod
        if not self._nominates:
            return
        log_lines.UPDATING_NOMINATION(pod, binding.node_name, _OVERRIDE)
        if not binding.nominated and pod.status.nominated_node_name != binding.node_name:
            binding.nominated = True
            await self._patch_status(pod, nominated(binding.node_name))

    async def drain(self, seconds: float) -> None:
        """Let what is on its way finish, for a while; then give up on the rest.

        Pods that wait in Permit or PreBind are not on their way yet: they give their places back.
        """
        self._ending = True
        for waiting in self._scheduler.waiting:
            waiting.reject("", _THE_END.message)
        for work in self._evictions.preparing.values():
            work.cancel()
        deadline = self._timer.now() + seconds
        while self.busy and self._timer.now() < deadline:
            await self._timer.sleep(0.01)
        self.cancel()
        await asyncio.gather(*self._workers, *self._other_tasks, return_exceptions=True)

    def cancel(self) -> None:
        """Give up on everything at once, and take up nothing more."""
        self._most_workers = 0
        self._bindings.clear()
        self._scheduler.handle.api.drop_later()
        for task in (*self._workers, *self._other_tasks):
            task.cancel()

    # ---- workers ----

    def _start_workers(self) -> None:
        """Start as many workers as there are bindings, and as the API server takes requests."""
        while self._bindings and self._allows_workers(1):
            worker = asyncio.create_task(self._work(self._bindings.popleft()))
            self._workers.add(worker)
            worker.add_done_callback(self._worker_ended)

    def _allows_workers(self, more: int) -> bool:
        """May there be so many workers more? One that waits elsewhere does not use our client."""
        count = len(self._workers) + more
        at_client = count - len(self._waiting_elsewhere)
        return count <= self._most_workers and at_client <= self._client.limit.limit

    def _worker_ended(self, worker: "asyncio.Task[None]") -> None:
        self._workers.discard(worker)
        self._start_workers()

    async def _work(self, binding: Binding) -> None:
        await self._bind(binding)
        del binding  # a worker must not keep its first pod alive
        while self._bindings and self._allows_workers(0):
            await self._bind(self._bindings.popleft())
            self._start_workers()  # the limit may have grown

    async def _after_permit(self, binding: Binding) -> None:
        assert binding.waiting is not None, "only pods that wait come here"
        observer = self._scheduler.observer
        await self._nominate(binding)
        started = observer.time()
        status = await wait_on_permit(binding.waiting)
        if status is not None and self._ending:
            status = _THE_END
        else:
            result = SUCCESS if status is None else status.code.value
            observer.permit_waited(result, observer.time() - started)
        if status is None:
            self._bindings.append(binding)
            self._start_workers()
        else:
            await self._failed(binding, status, "Permit")
            observer.binding_cycles(-1)

    async def _bind(self, binding: Binding) -> None:
        """Run one binding cycle: PreBind, Bind, then PostBind or the way back to the queue."""
        if _bound_by_others(binding):
            self._waiting_elsewhere.add(binding)
            self._start_workers()
        pod, node_name, profile = binding.pod, binding.node_name, binding.profile
        try:
            # Failures from here on are errors to retry, whatever code they carry.
            self._scheduler.permitted(binding)
            point = "PreBind"
            try:
                status = await self._pre_bind(binding)
                if status is None:
                    point = "Bind"
                    with _Call(self._scheduler.observer, "pod_binding") as call:
                        status = await bind_pod(
                            profile, pod, node_name, self._api, binding.extenders, binding.times
                        )
                        call.failed = status is not None
            except MoorageError as error:
                status = Status(Code.ERROR, (str(error),))
            if status is not None:
                await self._failed(binding, status, point)
                return
            self._recorder.event(
                pod,
                "Normal",
                "Scheduled",
                "Binding",
                f"Successfully assigned {pod.key} to {node_name}",
                controller=profile.name,
            )
            self._scheduler.bound(binding)
            await after_binding(profile, pod, node_name, binding.times)
            self._scheduler.handle.cycle_states.end(pod)
        except FAULTS as error:
            # Nothing may end a worker: a surprise is logged, and the pod is tried again.
            log.exception("binding pod %s to %s", pod.key, node_name)
            await self._failed(binding, Status(Code.ERROR, (reason_of(error),)))
        finally:
            self._waiting_elsewhere.discard(binding)
            self._scheduler.observer.binding_cycles(-1)

    async def _pre_bind(self, binding: Binding) -> Status | None:
        """Run PreBind; a more important pod that needs the place may end it."""
        pod, profile, times = binding.pod, binding.profile, binding.times
        if not takes_time(profile, pod, binding.node_name, times):
            with times.point("PreBind"):
                return None  # no plugin has anything to do, which is measured all the same
        await self._nominate(binding)
        if self._ending:
            return _THE_END
        work = asyncio.create_task(prepare(profile, pod, binding.node_name, self._api, times))
        self._evictions.preparing[pod.uid] = work
        self._waiting_elsewhere.add(binding)
        self._start_workers()
        try:
            return await work
        except asyncio.CancelledError:
            if work.cancelled() and self._ending:
                return _THE_END
            if work.cancelled() and pod.uid in self._evictions.cancelled:
                self._evictions.cancelled.discard(pod.uid)
                return Status(Code.ERROR, ("preempted by DefaultPreemption",))
            raise
        finally:
            if not _bound_by_others(binding):
                self._waiting_elsewhere.discard(binding)
            self._evictions.preparing.pop(pod.uid, None)

    async def _failed(self, binding: Binding, status: Status, point: str = "Bind") -> None:
        pod = binding.pod
        await self._between_attempts()
        if status is _THE_END:
            # Nobody refused the pod: whoever schedules next finds it as it was.
            self._scheduler.undo(binding.profile, pod, binding.node_name, binding.times)
            return
        self._scheduler.binding_failed(binding, status, point)
        if binding.nominated:
            # The informer may not have seen the nomination yet, so that the failure's own report
            # would find nothing to take back.
            self._spawn(self._patch_status(pod, nominated("")))
        self._wake()

    def _report(self, failure: Failure) -> None:
        self._recorder.event(
            failure.pod,
            "Warning",
            "FailedScheduling",
            "Scheduling",
            failure.message,
            controller=failure.scheduler_name,
        )
        nominated_node = failure.nominated_node
        written = () if nominated_node is None else (nominated_node, _OVERRIDE)
        condition = ("PodScheduled", "False", failure.reason)
        log_lines.UPDATING_CONDITION(failure.pod, *condition, *written)
        status = scheduling_failed(failure, self._timer.now())
        if status is None:
            return
        uid = failure.pod.uid
        if uid in self._statuses:
            self._statuses[uid] |= status  # the newest wins; a nomination is not lost
        else:
            self._statuses[uid] = status
            self._spawn(self._write_status(failure.pod))

    async def _write_status(self, pod: Pod) -> None:
        """Patch the pod's status, one patch after the other.

        A pod may fail again while its patch waits for the client's rate: then only the newest
        status is written, and none that says the same as the last one.
        """
        written: dict[str, Any] = {}
        try:
            while status := self._statuses[pod.uid]:
                self._statuses[pod.uid] = {}
                if _without_times(status) != _without_times(written):
                    await self._patch_status(pod, status)
                    written = status
        finally:
            del self._statuses[pod.uid]

    async def _patch_status(self, pod: Pod, status: dict[str, Any]) -> None:
        try:
            with _Call(self._scheduler.observer, "pod_status_patch"):
                await self._client.patch_pod_status(pod.namespace, pod.name, status)
        except MoorageError as error:
            log_lines.UPDATE_FAILED(error, pod)

    async def _write_group_status(self, outcome: GroupConditionUpdate) -> None:
        group = outcome.group
        body = {"status": group_status(outcome, self._timer.now())}
        asked = requests.patch(
            resource_for("PodGroup"), group.namespace, group.name, body, subresource="status"
        )
        try:
            await self._client.persist(asked)
        except MoorageError as error:
            log.error("status of pod group %s could not be written: %s", group.key, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._other_tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._other_tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("carrying out a decision failed", exc_info=error)


async def _run_later(work: Work) -> None:
    try:
        await work
    except (*FAULTS, KeyboardInterrupt):  # Ctrl-C is a signal that somebody handles
        log.exception("what a plugin left for later failed: %s", work)


class _Call:
    """Observes a call to the API while it waits for its answer, and how it ended."""

    __slots__ = ("_observer", "_started", "_type", "failed")

    def __init__(self, observer: SchedulerObserver, call_type: str) -> None:
        self._observer = observer
        self._type = call_type
        self.failed = False

    def __enter__(self) -> "_Call":
        self._started = self._observer.time()
        self._observer.api_calls_pending(self._type, 1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        observer = self._observer
        observer.api_calls_pending(self._type, -1)
        result = "success" if error is None and not self.failed else "error"
        observer.api_call_finished(self._type, result, observer.time() - self._started)


def _without_times(status: dict[str, Any]) -> tuple[Any, ...]:
    """What a status says, apart from times."""
    conditions = [(one["reason"], one["message"]) for one in status.get("conditions", ())]
    return conditions, status.get("nominatedNodeName", "as it is")


def _bound_by_others(binding: Binding) -> bool:
    """May somebody else than our own client carry the binding to the API?"""
    bind = binding.profile.bind
    return bool(binding.extenders) or len(bind) != 1 or bind[0].name != _DEFAULT_BINDER
