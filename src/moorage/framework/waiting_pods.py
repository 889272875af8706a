"""The pods that Permit plugins hold back; every plugin reaches them through its handle.

A waiting pod is settled once: allowed when every plugin that holds it has allowed it, or rejected
by the first plugin that refuses or runs out of time. Whoever waits is told through a callback, so
nothing here needs an event loop.
"""

from collections.abc import Callable, Iterator

from moorage.framework.status import Code, Status
from moorage.model.duration import Duration
from moorage.model.pod import Pod

Settled = Callable[[Status | None], object]


class WaitingPod:
    """A pod that some Permit plugins hold back; None as outcome means it may go on."""

    def __init__(
        self,
        pod: Pod,
        node_name: str,
        deadlines: dict[str, tuple[float, float]],
        message: str = "",
    ) -> None:
        self.pod = pod
        self.node_name = node_name
        self.message = message
        """Why the pod waits, in the words of the last plugin that holds it."""
        self._deadlines = deadlines
        self._outcome: Status | None = None
        self._settled = False
        self._callbacks: list[Settled] = []

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet."""
        return tuple(self._deadlines)

    @property
    def deadline(self) -> float:
        """When the first plugin runs out of time."""
        return min(deadline for deadline, _ in self._deadlines.values())

    def allow(self, plugin: str) -> None:
        """One plugin lets go; the last one lets the pod go on."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines:
            self._settle(None)

    def reject(self, plugin: str, message: str, code: Code = Code.UNSCHEDULABLE) -> None:
        self._settle(Status(code, (message,), plugin))

    def expire(self, now: float) -> None:
        """Reject the pod if a plugin's time is up."""
        for plugin, (deadline, seconds) in list(self._deadlines.items()):
            if deadline <= now and not self._settled:
                waited = Duration(round(seconds * 1e9))
                self.reject(
                    plugin,
                    f"rejected due to timeout after waiting {waited} at plugin {plugin}",
                )

    def when_settled(self, callback: Settled) -> None:
        """Call back with the outcome, at once if there is one already."""
        if self._settled:
            callback(self._outcome)
        else:
            self._callbacks.append(callback)

    def _settle(self, outcome: Status | None) -> None:
        if self._settled:
            return
        self._settled, self._outcome = True, outcome
        for callback in self._callbacks:
            callback(outcome)


class WaitingPods:
    """All pods that wait; plugins reach them to allow or reject others than the current one."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        """A pod begins to wait; it leaves by itself when it is settled."""
        uid = waiting.pod.uid
        self._pods[uid] = waiting
        waiting.when_settled(lambda outcome: self._pods.pop(uid, None))

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def allow(self, uid: str, plugin: str) -> None:
        if uid in self._pods:
            self._pods[uid].allow(plugin)

    def reject(self, uid: str, plugin: str, message: str) -> None:
        if uid in self._pods:
            self._pods[uid].reject(plugin, message)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def expire(self, now: float) -> None:
        for waiting in self:
            waiting.expire(now)

    def next_deadline(self) -> float | None:
        return min((waiting.deadline for waiting in self._pods.values()), default=None)
