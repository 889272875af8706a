"""A scheduler at work in virtual time: the real engine, and a cluster that is nothing but objects.

Owns what an API server, its informers and the kubelets would do meanwhile: a pod that is bound is
seen on its node, victims leave at once, and what plugins write changes the cluster. Nothing happens
by itself: objects come when they are added, time passes when somebody says so.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import msgspec

from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates, KubeSchedulerConfiguration
from moorage.engine.actions import Binding, Eviction, Failure
from moorage.engine.assembly import assemble_scheduler
from moorage.engine.clock import VirtualClock
from moorage.engine.group_attempt import GroupConditionUpdate
from moorage.errors import MoorageError
from moorage.framework.extenders import Extender
from moorage.framework.faults import PluginFault
from moorage.framework.guard import has_work
from moorage.framework.pacing import Pacing
from moorage.framework.plugin import ApiPort
from moorage.framework.registry import Registry
from moorage.framework.status import Code, Status
from moorage.model.custom import CustomObject, kind_of
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.simulator.api import SimulatedClient, SimulatedPort, keep_event
from moorage.simulator.offline_binding import OfflineBinding

_START = 1_000_000.0
_LEAST_STEP = 0.1
_MOST_ATTEMPTS = 10
"""For each pod, in one moment."""

ObjectKind = type[ApiObject] | str


class VirtualCluster:
    """Schedules what it is given, as soon as it can."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        *,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        extenders: Sequence[Extender] = (),
        start: float = _START,
        seed: int = 0,
    ) -> None:
        self.clock = VirtualClock(start)
        self.engine = assemble_scheduler(
            config,
            registry,
            gates,
            self.clock,
            random=Random(seed),
            pacing=Pacing(self.clock.now),
            extenders=extenders,
        )
        self.handle = self.engine.handle
        self.faults: list[PluginFault] = []
        """What plugins did wrong."""
        self.messages: dict[str, str] = {}
        """Why the latest attempt for a pod (`namespace/name`) failed."""
        self.evicted: list[Pod] = []
        self._settled: list[tuple[Binding, Status | None]] = []
        self._binding = OfflineBinding(self)
        self.port: ApiPort = SimulatedPort(self)
        """What binding plugins may do."""
        api = self.handle.api
        api.client = SimulatedClient(self)
        api.write_event = self._write_event
        self.handle.faults.observe = self.faults.append

    # The cluster

    def add(self, *objects: ApiObject) -> None:
        """Objects come, or change if they are there; pods without a node are scheduled."""
        for obj in objects:
            self.put(obj, kind_of(obj))
        self.run()

    def delete(self, *objects: ApiObject) -> None:
        """Objects go."""
        for obj in objects:
            self.remove(obj, kind_of(obj))
        self.run()

    def advance(self, seconds: float) -> None:
        """Let time pass: back-offs end, pods that wait in Permit run out of time."""
        end = self.clock.now() + seconds
        self.run()
        while (wakeup := self.engine.next_wakeup()) is not None and wakeup <= end:
            step = max(wakeup - self.clock.now(), _LEAST_STEP)
            self.clock.advance(min(step, end - self.clock.now()))
            self.run()
            if self.clock.now() >= end:
                return
        self.clock.advance(end - self.clock.now())
        self.run()

    def node_of(self, pod: Pod | str) -> str | None:
        """The node that a pod is bound to; pods are named `name` or `namespace/name`."""
        found = self._pod(pod)
        return None if found is None else found.spec.node_name or None

    def message_of(self, pod: Pod | str) -> str:
        """Why a pod has no node: the latest attempt's words, or what it waits for."""
        key = _key(pod)
        waiting = {one.pod.key: one.message for one in self.handle.waiting}
        return waiting.get(key) or self.messages.get(key, "")

    @property
    def waiting(self) -> Sequence[Pod]:
        """The pods that Permit plugins hold back."""
        return [one.pod for one in self.handle.waiting]

    @property
    def pending(self) -> Sequence[Pod]:
        """The pods in the queue."""
        return self.engine.queue.view.pending_pods().pods

    def close(self) -> None:
        """End the event loop, if plugins needed one."""
        self._binding.close()

    # What happens by itself

    def run(self) -> None:
        """Go on until nothing can happen without news or time."""
        self.engine.run_timers()
        if not self._attempt():
            return
        # Pods that keep waking one another would do so for ever where no time passes.
        for _ in range(_MOST_ATTEMPTS * (1 + len(self.pending))):
            if not self._attempt():
                return

    def _attempt(self) -> bool:
        """One attempt, if a pod is due, and what follows; did anything happen?"""
        busy = self.engine.schedule_one()
        return self._carry_out() or busy

    def _carry_out(self) -> bool:
        outbox, did = self.engine.outbox, self._flush()
        while outbox or self._settled or self.handle.api.later:
            did = True
            self.run_later()
            while self._settled:
                self._go_on(*self._settled.pop(0))
            while outbox:
                match outbox.popleft():
                    case Binding() as binding:
                        self._bind(binding)
                    case Failure() as failure:
                        self._failed(failure)
                    case Eviction() as eviction:
                        self._evict(eviction)
                    case GroupConditionUpdate() as update:
                        self.group_tried(update)
        return did

    def _flush(self) -> bool:
        busy = [plugin for plugin in self.engine.deferring.values() if has_work(plugin)]
        for plugin in busy:
            self.handle.api.run_later(plugin.flush(self.port))
        return bool(busy)

    def _bind(self, binding: Binding) -> None:
        if binding.waiting is None:
            self._go_on(binding, None)
        else:
            self.expect(binding)
            binding.waiting.when_settled(lambda outcome: self._settled.append((binding, outcome)))

    def _go_on(self, binding: Binding, refusal: Status | None) -> None:
        if refusal is not None:
            self.engine.binding_failed(binding, refusal, "Permit")
            return
        self.engine.permitted(binding)
        self.bind(binding)

    def bind(self, binding: Binding) -> None:
        """Take a pod that nobody holds back through the binding cycle."""
        try:
            refusal = self._binding.bind(binding.profile, binding.pod, binding.node_name)
        except MoorageError as error:
            refusal = Status(Code.ERROR, (str(error),))
        if refusal is not None:
            self.engine.binding_failed(binding, refusal)
            return
        self.bound(binding)
        self.handle.cycle_states.end(binding.pod)

    def bound(self, binding: Binding) -> None:
        """A pod is on its node."""
        self.engine.bound(binding)
        self.messages.pop(binding.pod.key, None)

    def _failed(self, failure: Failure) -> None:
        self.messages[failure.pod.key] = failure.message
        self.failed(failure)

    def failed(self, failure: Failure) -> None:
        """An attempt failed: what is written of it into the pod."""
        current = self._pod(failure.pod)
        node_name = failure.nominated_node
        if current is not None and node_name not in (None, current.status.nominated_node_name):
            self.nominate(current, node_name)

    def _evict(self, eviction: Eviction) -> None:
        # The deletions wake the preemptor, which must be let in by then.
        self.engine.preemption_done(eviction.cause)
        for victim in eviction.victims:
            if not self.turn_away(victim):
                self.take_away(victim, eviction)

    def turn_away(self, victim: Pod) -> bool:
        """Stop a victim that is not bound yet; False if it is too late for that."""
        waiting = self.handle.waiting.get(victim.uid)
        if waiting is not None:
            waiting.reject("DefaultPreemption", "preempted", Code.ERROR)
        return waiting is not None

    def run_later(self) -> None:
        """Do what plugins left for later."""
        self._binding.run_later()

    # What plugins and their client see

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.clock.now()

    def objects(self, kind: ObjectKind) -> Iterable[ApiObject]:
        """All objects of a kind."""
        nodes = self.engine.state.nodes.nodes
        return tuple(nodes) if kind is Node else tuple(self.handle.listers.of(kind))

    def find(self, kind: ObjectKind, name: str, namespace: str) -> ApiObject | None:
        """One object."""
        if kind is Node:
            row = self.engine.state.nodes.row_of.get(name)
            return None if row is None else self.engine.state.nodes.nodes[row]
        return self.handle.listers.of(kind).get(name, namespace)

    def put(self, obj: ApiObject, kind: ObjectKind) -> None:
        """An object came or changed: the scheduler hears of it as of a live one."""
        old, handlers = self.find(kind, obj.name, obj.namespace), self.engine.handlers
        if isinstance(obj, Pod) and isinstance(old, Pod):
            handlers.update_pod(old, obj)
        elif isinstance(obj, Pod):
            handlers.add_pod(obj)
        elif isinstance(obj, Node) and isinstance(old, Node):
            handlers.update_node(old, obj)
        elif isinstance(obj, Node):
            handlers.add_node(obj)
        elif old is not None:
            handlers.update_object(old, obj, kind if isinstance(kind, str) else "")
        else:
            handlers.add_object(obj, kind if isinstance(kind, str) else "")

    def remove(self, obj: ApiObject, kind: ObjectKind) -> None:
        """An object went."""
        handlers = self.engine.handlers
        obj = self.find(kind, obj.name, obj.namespace) or obj
        if isinstance(obj, Pod):
            handlers.delete_pod(obj)
        elif isinstance(obj, Node):
            handlers.delete_node(obj)
        else:
            handlers.delete_object(obj, kind if isinstance(kind, str) else "")

    def placed(self, pod: Pod, node_name: str) -> None:
        """A pod was bound."""
        current = self._pod(pod) or pod
        self.put(current.on_node(node_name), Pod)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """A pod waits for others to leave a node."""
        status = msgspec.structs.replace(pod.status, nominated_node_name=node_name)
        self.put(msgspec.structs.replace(pod, status=status), Pod)

    def expect(self, binding: Binding) -> None:
        """A pod has a node, but must wait: who wants to know may be told."""

    def group_tried(self, update: GroupConditionUpdate) -> None:
        """A pod group was tried: what is written of it."""

    def take_away(self, victim: Pod, eviction: Eviction) -> None:
        """A pod has to make room: it is gone at once."""
        self.evicted.append(victim)
        self.remove(victim, Pod)

    @property
    def events(self) -> Sequence[CustomObject]:
        """The events that plugins wrote."""
        return list(self.handle.listers.of("events.v1.events.k8s.io"))

    def _write_event(self, *args: Any, **fields: Any) -> None:
        keep_event(self.handle.listers, *args, **fields)

    def _pod(self, pod: Pod | str) -> Pod | None:
        namespace, _, name = _key(pod).partition("/")
        return self.handle.listers.of(Pod).get(name, namespace)


def _key(pod: Pod | str) -> str:
    if isinstance(pod, Pod):
        return pod.key
    return pod if "/" in pod else f"default/{pod}"
