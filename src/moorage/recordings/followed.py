"""A cluster that follows a recording, step by step, forwards and a little way back.

Owns what each change does to the cluster state, and undoing it. Decides nothing.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from moorage.errors import InputError, StateError
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.recordings.recording_file import Named, Numbered, Recording
from moorage.simulator.world import World

_REMEMBERED = 500
"""So many steps can be undone."""


class RecordedStep(NamedTuple):
    """One change: the object before and after, None where there is none."""

    at: float
    before: ApiObject | None
    after: ApiObject | None
    number: int = 0
    """Of the record."""

    @property
    def binding(self) -> Pod | None:
        """The pod that got its node, as it was when it waited; None if this is something else."""
        before, after = self.before, self.after
        if not (isinstance(before, Pod) and isinstance(after, Pod) and before.uid == after.uid):
            return None
        return before if after.spec.node_name and not before.spec.node_name else None

    @property
    def withdrawal(self) -> Pod | None:
        """The pod that goes before it got a node, as it waited; None if this is something else."""
        before, after = self.before, self.after
        if not isinstance(before, Pod) or before.spec.node_name or before.terminating:
            return None
        goes = after is None or (isinstance(after, Pod) and after.terminating)
        return before if goes else None

    def undone(self) -> "RecordedStep":
        """The step back."""
        return self._replace(before=self.after, after=self.before)


class RecordedSteps:
    """The changes of a recording; None where it is complete from there on, or was interrupted."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._objects: dict[Named, ApiObject] = {}

    def __iter__(self) -> Iterator[RecordedStep | bool]:
        """Steps; True where changes begin to be seen as they happen, False where they end to be."""
        for one in self._recording:
            record = one.record
            if record.complete or record.resumed:
                yield record.complete
            else:
                step = self._step(one)
                if step is not None:
                    yield step

    def _step(self, one: Numbered) -> RecordedStep | None:
        record = one.record
        if record.deleted is not None:
            before = self._objects.pop(record.deleted, None)
            return None if before is None else RecordedStep(record.at, before, None, one.number)
        obj: ApiObject | None = self._recording.decode(one)
        assert obj is not None, "it was decoded"
        name = Named(type(obj).__name__, obj.name, obj.namespace)
        if isinstance(obj, Pod) and obj.finished:
            obj = None
        before = self._objects.get(name)
        if obj is None:
            self._objects.pop(name, None)
        else:
            self._objects[name] = obj
        return RecordedStep(record.at, before, obj, one.number)


class FollowedCluster:
    """A world that is what the recording says."""

    def __init__(self, world: World, path: str) -> None:
        self.world = world
        self._path = path
        self.past: deque[RecordedStep] = deque(maxlen=_REMEMBERED)
        """The latest steps, the latest last."""
        self._arrivals: dict[str, int] = {}

    def follow(self, step: RecordedStep) -> None:
        """Make a change, for good."""
        self._do(step)
        self.past.append(step)
        pod = step.after
        if isinstance(pod, Pod) and not (pod.spec.node_name or pod.terminating):
            self._arrivals[pod.uid] = step.number
        elif step.after is None and isinstance(step.before, Pod):
            self._arrivals.pop(step.before.uid, None)

    def turn(self, pod: Pod) -> tuple[int, ...]:
        """Pods that wait are tried in the order of this: by priority, then as they came."""
        return -pod.priority, self._arrivals.get(pod.uid, 0)

    def arrival(self, pod: Pod) -> tuple[int, ...]:
        """Pods that are tried at once are tried in the order of this: as they came."""
        return (self._arrivals.get(pod.uid, 0),)

    def waits(self, pod: Pod) -> bool:
        """Is it there, without a node?"""
        here = self.world.state.listers.of(Pod).get(pod.name, pod.namespace)
        return here is not None and here.uid == pod.uid and not here.spec.node_name

    @property
    def waiting(self) -> list[Pod]:
        """The pods without a node."""
        pods = self.world.state.listers.of(Pod)
        return [pod for pod in pods if not pod.spec.node_name and not pod.terminating]

    @contextmanager
    def otherwise(self, steps: Iterable[RecordedStep]) -> Iterator[None]:
        """The cluster after some more steps, for a moment; a step that does not fit is left out."""
        done: list[RecordedStep] = []
        try:
            for given in steps:
                step = self._as_it_is(given)
                if step is None:
                    continue
                try:
                    self._change(step.before, step.after)
                except StateError:
                    continue
                done.append(step)
            yield
        finally:
            for step in reversed(done):
                self._change(step.after, step.before)

    def _as_it_is(self, step: RecordedStep) -> RecordedStep | None:
        """A step from what is there now; None if it cannot be taken."""
        obj, before = step.after or step.before, step.before
        if not isinstance(obj, Pod):
            return step
        now = self.world.state.listers.of(Pod).get(obj.name, obj.namespace)
        if now is before:
            return step
        # Meanwhile it runs, which nobody who decides looks at.
        if now is None or step.after is None or not isinstance(before, Pod):
            return None
        same = (now.uid, now.spec.node_name) == (before.uid, before.spec.node_name)
        return step._replace(before=now) if same else None

    def _do(self, step: RecordedStep) -> None:
        try:
            self._change(step.before, step.after)
        except StateError as error:
            text = f"expected a change that fits what was recorded before: {error}"
            raise InputError(f"{self._path}: record {step.number}: {text}") from None
        except ValueError as error:
            raise InputError(f"{self._path}: record {step.number}: object: {error}") from None

    def _change(self, before: ApiObject | None, after: ApiObject | None) -> None:
        obj = after or before
        assert obj is not None, "a step changes something"
        state = self.world.state
        if isinstance(obj, Pod):
            self._change_pod(_pod(before), _pod(after))
        elif isinstance(obj, Node):
            if isinstance(after, Node):
                state.add_node(after)
            else:
                state.remove_node(obj.name)
        elif after is None:
            state.listers.remove(obj, type(obj))
        else:
            state.listers.put(after, KINDS[type(after).__name__].struct)

    def _change_pod(self, before: Pod | None, after: Pod | None) -> None:
        state, nominated = self.world.state, self.world.cycle.nominated
        if before is not None and (after is None or before.uid != after.uid):
            self._take_out(before)
            before = None
        if after is None:
            return
        if after.spec.node_name:
            if before is not None and before.spec.node_name:
                state.update_pod(after)
            else:
                state.add_pod(after)
        elif before is not None and before.spec.node_name:
            state.remove_pod(before)
        state.listers.of(Pod).put(after)
        nominated.remove(after)
        if not after.spec.node_name and after.status.nominated_node_name:
            nominated.add(after)

    def _take_out(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.world.state.remove_pod(pod)
        self.world.cycle.nominated.remove(pod)
        self.world.state.listers.of(Pod).remove(pod)


def _pod(obj: ApiObject | None) -> Pod | None:
    assert obj is None or isinstance(obj, Pod), "a step is about one object"
    return obj
