"""A whole cluster in virtual time: scheduler, controllers and kubelets, and what happens to them.

Each moment is played until nobody has anything to do, then time jumps to the next one: something
that was planned, something that somebody waits for, a back-off that ends. What happens depends on
the input and the seed alone. The scheduler, the controllers and the kubelets are the live ones.
"""

import asyncio
import heapq
import logging
import math
from collections.abc import Callable
from contextlib import suppress

import msgspec

from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates, KubeSchedulerConfiguration
from moorage.config.pod_level import pod_level_adjustment
from moorage.controllers.cluster import Key, key_of
from moorage.controllers.kubelet import KubeletOptions, Kubelets
from moorage.controllers.machine import UNREADABLE, StateMachine
from moorage.controllers.objects import Json, is_finished, is_going, meta, spec
from moorage.controllers.triggers import WORKLOADS
from moorage.engine.actions import Binding, Eviction, Failure
from moorage.engine.group_attempt import GroupConditionUpdate
from moorage.errors import ApiError, InputError, MoorageError, reason_of
from moorage.framework.api_access import Work
from moorage.framework.binding import after_binding, bind_pod, prepare, takes_time
from moorage.framework.guard import FAULTS
from moorage.framework.profile import Profile
from moorage.framework.registry import Registry
from moorage.framework.status import Code, Status
from moorage.kube.extender_messages import keep_source
from moorage.kube.http_extender import HttpExtender, http_extenders, needs_source
from moorage.kube.pod_status import disruption_target, group_status, nominated, scheduling_failed
from moorage.model.custom import Definitions
from moorage.model.decode import KINDS, decode_json
from moorage.model.defaulting import Classes, with_defaults
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.workloads import PriorityClass
from moorage.plugins.default_binder import DefaultBinder
from moorage.scenarios.binding_cycles import BindingCycles
from moorage.scenarios.json_access import JsonClient, JsonPort, pod_key
from moorage.scenarios.json_api import JsonApi
from moorage.simulator.virtual import VirtualCluster

log = logging.getLogger(__name__)

START = 1_800_000_000.0
_LEAST_STEP = 0.1
_RETRY_SECONDS = 1.0
_QUIET_SECONDS = 900.0
"""After so long, every pod was tried again, and it helped nobody."""
_MOST_STEPS = 1_000_000
"""Of controllers and kubelets, in one moment."""

_MOST_UNPLANNED, _MOST_PER_POD = 20_000, 20
"""So many moments may follow the last one that was planned, and so many more for each pod."""

Action = Callable[[], None]


class Simulation(VirtualCluster):
    """One run."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        *,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        kubelets: KubeletOptions,
        definitions: Definitions | None = None,
        seed: int = 0,
    ) -> None:
        extenders = http_extenders(config)
        super().__init__(config, registry, gates=gates, extenders=extenders, start=START, seed=seed)
        self.api = JsonApi(self.now, definitions)
        self.api.followers.append(self._changed)
        self.why_stop: Callable[[], str] = lambda: ""
        """Asked after every moment: why to end here; empty: go on."""
        self.preempted: list[str] = []
        self._cycles = BindingCycles(self.now)
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self.port = JsonPort(self.api, self, self._cycles.sleep)
        self.handle.api.client = JsonClient(self.api)
        self._adjust = pod_level_adjustment(gates)
        self._needs_source = needs_source(extenders)
        self._nominates = gates.enabled("NominatedNodeNameForExpectation")
        self._machines: tuple[StateMachine, ...] = (WORKLOADS, Kubelets(kubelets).machine)
        self._waiting: dict[tuple[int, Key], None] = {}
        self._wakeups: dict[tuple[int, Key], float] = {}
        self._due: list[tuple[float, int, int, Key]] = []
        self._planned: list[tuple[float, int, Action]] = []
        self._serial = 0
        self._latest: Key | None = None
        """What was looked at last."""

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.now() - START

    def plan(self, at: float, action: Action) -> None:
        """Do something so many seconds after the beginning."""
        self._serial += 1
        heapq.heappush(self._planned, (START + at, self._serial, action))

    def come(self, body: Json) -> None:
        """Create an object."""
        try:
            self.api.create(body)
        except ApiError as error:
            raise InputError(f"at {self.elapsed:.0f} s: {error}") from None

    def go(self, body: Json) -> None:
        """Delete an object, if it is still there."""
        key = self._found(body)
        if key is not None:
            self.api.delete(key, grace=meta(body).get("deletionGracePeriodSeconds"))

    def change(self, body: Json) -> None:
        """Change what is said of an object, if it is still there."""
        key = self._found(body)
        if key is not None:
            self.api.patch(key, body)

    def _found(self, body: Json) -> Key | None:
        kind, metadata = body["kind"], body["metadata"]
        places = (metadata.get("namespace") or "default", "")
        keys = (Key(kind, place, metadata["name"]) for place in places)
        return next((key for key in keys if self.api.cluster.get(*key) is not None), None)

    def play(self, until: float, patience: int = _MOST_UNPLANNED) -> str:
        """Go on until nothing more can happen or so many seconds have passed; why it ended.

        Also if nothing is planned any more, and after so many moments it still goes on.
        """
        last_news, unplanned = self.now(), 0
        while True:
            unplanned = 0 if self._planned else unplanned + 1
            if unplanned > patience + _MOST_PER_POD * len(self.engine.state.listers.of(Pod)):
                return f"it would go on for ever: nothing is planned, but {self._latest} changes"
            if self._play_moment():
                last_news = self.now()
            if why := self.why_stop():
                return why
            due = self._next()
            if not self._planned and not self._wakeups and not self._preparing:
                wakeup = self.engine.next_wakeup()
                if wakeup is None or wakeup > last_news + _QUIET_SECONDS:
                    return "nothing more could happen"
            if due > START + until:
                self.clock.advance(START + until - self.now())
                return "its time was over"
            self.clock.advance(due - self.now())

    # ---- one moment ----

    def _next(self) -> float:
        moments = [one[0] for one in self._planned[:1]] + [one[0] for one in self._due[:1]]
        wakeup = self.engine.next_wakeup()
        if wakeup is not None:
            moments.append(max(wakeup, self.now() + _LEAST_STEP))
        wakeup = self._cycles.next_wakeup()
        if wakeup is not None:
            moments.append(wakeup)
        return min(moments, default=math.inf)

    def _play_moment(self) -> bool:
        """Everything that happens now; was there anything but the scheduler's own timers?"""
        now, news, steps = self.now(), False, 0
        while self._planned and self._planned[0][0] <= now:
            heapq.heappop(self._planned)[2]()
            news = True
        while self._due and self._due[0][0] <= now:
            due, _, number, key = heapq.heappop(self._due)
            if self._wakeups.get((number, key)) == due:
                del self._wakeups[number, key]
                self._waiting[number, key] = None
        news = self._cycles.wake() or news
        self.run()
        while self._waiting:
            while self._waiting:
                steps += 1
                if steps > _MOST_STEPS:
                    raise InputError(f"at {self.elapsed:.0f} s: controllers do not come to rest")
                self._step(*next(iter(self._waiting)))
            self.run()
            news = True
        return news

    def _step(self, number: int, key: Key) -> None:
        """A controller or a kubelet looks at one object."""
        del self._waiting[number, key]
        self._latest = key
        self._wakeups.pop((number, key), None)
        obj = self.api.cluster.get(*key)
        if obj is None:
            return
        try:
            plan = self._machines[number].reconcile(self.api.cluster, obj, self.now())
        except UNREADABLE as error:
            raise InputError(f"{key}: {reason_of(error)}") from None
        wait = plan.again_in
        try:
            for write in plan.writes:
                self.api.apply(write)
        except ApiError as error:
            wait = _RETRY_SECONDS
            self.api.cluster.failed(meta(obj)["uid"], str(error))
        else:
            self.api.cluster.failed(meta(obj)["uid"], "")
        if wait is not None and (number, key) not in self._waiting:
            self._serial += 1
            self._wakeups[number, key] = due = self.now() + wait
            heapq.heappush(self._due, (due, self._serial, number, key))

    # ---- what changes ----

    def _changed(self, before: Json | None, after: Json | None) -> None:
        try:
            for number, machine in enumerate(self._machines):
                for key in machine.affected(self.api.cluster, before, after):
                    self._waiting[number, key] = None
        except UNREADABLE as error:
            raise InputError(f"{key_of(after or before or {})}: {reason_of(error)}") from None
        self.tell(before, after)

    def tell(self, before: Json | None, after: Json | None) -> None:
        """Let the scheduler alone hear of a change."""
        given = after or before or {}
        known = KINDS.get(given["kind"])
        if known is None or given["apiVersion"].rpartition("/")[0] != known.group:
            return  # it is of no use to a scheduler
        # A scheduler does not watch pods that have ended.
        if after is None or (known.struct is Pod and is_finished(after)):
            old = self.find(known.struct, meta(given)["name"], meta(given).get("namespace", ""))
            if old is not None:
                self.remove(old, known.struct)
        else:
            self.put(self._decoded(after, known.struct), known.struct)

    def _decoded(self, obj: Json, struct: type[ApiObject]) -> ApiObject:
        """The object as the scheduler has it, which would read it as JSON."""
        found = decode_json(struct, msgspec.json.encode(obj), str(key_of(obj)))
        classes = Classes.among(tuple(self.handle.listers.of(PriorityClass)))
        complete = with_defaults(found, classes)
        if self._adjust is not None and isinstance(complete, Pod):
            complete = self._adjust(complete)
        if self._needs_source is not None and self._needs_source(complete):
            keep_source(complete, msgspec.json.encode(obj))
        return complete

    # ---- what the scheduler does ----

    def bind(self, binding: Binding) -> None:
        """Take a pod through the binding cycle, which may take virtual time."""
        pod, profile = binding.pod, binding.profile
        prepared = not takes_time(profile, pod, binding.node_name)
        if prepared and not binding.extenders and not profile.post_bind and _is_plain(profile):
            try:
                self.api.bind(pod_key(pod), pod.uid, binding.node_name)
            except ApiError as error:
                self.engine.binding_failed(binding, Status(Code.ERROR, (str(error),)))
            else:
                self.bound(binding)
                self.handle.cycle_states.end(pod)
            return
        if not prepared:
            self.expect(binding)
        task = self._cycles.start(self._bind_pod(binding))
        if not task.done():
            self._preparing[pod.uid] = task
            task.add_done_callback(lambda _: self._preparing.pop(pod.uid, None))

    async def _bind_pod(self, binding: Binding) -> None:
        pod, node_name, profile = binding.pod, binding.node_name, binding.profile
        point = "PreBind"
        try:
            status = await prepare(profile, pod, node_name, self.port)
            if status is None:
                point = "Bind"
                status = await bind_pod(profile, pod, node_name, self.port, binding.extenders)
                if status is None and not spec(self.api.get(pod_key(pod))).get("nodeName"):
                    # An extender that binds knows another cluster's API server, if any.
                    await self.port.bind(pod, node_name)
        except MoorageError as error:
            status = Status(Code.ERROR, (str(error),))
        except asyncio.CancelledError:
            status = Status(Code.ERROR, ("preempted by DefaultPreemption",))
        if status is not None:
            self.engine.binding_failed(binding, status, point)
            return
        self.bound(binding)
        await after_binding(profile, pod, node_name)
        self.handle.cycle_states.end(pod)

    def run_later(self) -> None:
        """Do what plugins left for later."""
        later = self.handle.api.later
        while later:
            self._cycles.start(_carefully(later.popleft()))

    def expect(self, binding: Binding) -> None:
        """Write where a pod is going to be."""
        if self._nominates and binding.pod.status.nominated_node_name != binding.node_name:
            self._write_status(binding.pod, nominated(binding.node_name))

    def failed(self, failure: Failure) -> None:
        """Write why a pod has no node, and where it waits for others to leave."""
        if failure.reason == "SchedulerError":
            for extender in self.engine.cycle.extenders:
                if f'Post "{extender.name}' in failure.message:
                    raise InputError(f"extenders: no answer: {failure.message}")
        status = scheduling_failed(failure, self.now())
        if status is not None:
            self._write_status(failure.pod, status)

    def group_tried(self, update: GroupConditionUpdate) -> None:
        """Write what became of a pod group."""
        group = update.group
        key = Key("PodGroup", group.namespace, group.name)
        with suppress(ApiError):
            self.api.patch_status(key, group_status(update, self.now()), group.metadata.uid)

    def turn_away(self, victim: Pod) -> bool:
        """Stop a victim that is not bound yet; False if it is too late for that."""
        task = self._preparing.get(victim.uid)
        if task is None:
            return super().turn_away(victim)
        self._cycles.cancel(task)
        return True

    def take_away(self, victim: Pod, eviction: Eviction) -> None:
        """Mark and delete a pod that has to make room."""
        self.preempted.append(victim.key)
        current = self.handle.listers.of(Pod).get(victim.name, victim.namespace) or victim
        status = disruption_target(current, eviction.scheduler_name, eviction.what, self.now())
        if status is not None:
            self._write_status(victim, status)
        self.api.delete(pod_key(victim))

    def _write_status(self, pod: Pod, status: Json) -> None:
        """Write it, unless the pod is gone or is another one by now."""
        with suppress(ApiError):
            self.api.patch_status(pod_key(pod), status, pod.uid)

    def close(self) -> None:
        """End what goes on."""
        self._cycles.close()
        for extender in self.engine.cycle.extenders:
            if isinstance(extender, HttpExtender):
                extender.close()
        super().close()

    # ---- what people and machines do to nodes ----

    def cordon(self, name: str, *, on: bool = True) -> None:
        """Take no more pods, or take them again."""
        self.api.patch(Key("Node", "", name), {"spec": {"unschedulable": on or None}})

    def drain(self, name: str) -> None:
        """Cordon a node and delete its pods, but for those of DaemonSets."""
        self.cordon(name)
        for pod in self.api.cluster.on_node(name):
            owners = meta(pod).get("ownerReferences") or ()
            if not is_going(pod) and not any(one["kind"] == "DaemonSet" for one in owners):
                self.api.delete(key_of(pod))

    def fail(self, name: str) -> None:
        """The machine stops: its pods are lost, and it comes back empty if it is repaired."""
        key = Key("Node", "", name)
        node = self.api.cluster.get(*key)
        if node is None:
            return
        self.api.delete(key)
        for pod in self.api.cluster.on_node(name):
            self.api.delete(key_of(pod), grace=0)

    def taint(self, name: str, taint: Json, *, on: bool = True) -> None:
        """Add a taint to a node, or take it away."""
        key = Key("Node", "", name)
        node = self.api.cluster.get(*key) or {}
        same = (taint["key"], taint["effect"])
        rest = [t for t in spec(node).get("taints") or () if (t["key"], t["effect"]) != same]
        self.api.patch(key, {"spec": {"taints": [*rest, taint] if on else rest}})


def _is_plain(profile: Profile) -> bool:
    """Does nobody but the default plugin bind pods?"""
    return all(isinstance(plugin, DefaultBinder) for plugin in profile.bind)


async def _carefully(work: Work) -> None:
    try:
        await work
    except FAULTS:
        log.exception("what a plugin left for later failed: %s", work)
