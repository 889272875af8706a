"""Permit: plugins may hold a placed pod back, and the pods that wait because of it.

A waiting pod is settled once: allowed when every plugin that holds it has allowed it, or rejected
by the first plugin that refuses or runs out of time. Whoever waits is told through a callback, so
nothing here needs an event loop.
"""

from collections.abc import Callable, Iterator

from moorage.framework.guard import checked_permit_answer, guard
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.framework.timing import SUCCESS, UNTIMED, WAIT, AttemptTimes, PointTime
from moorage.model.duration import Duration
from moorage.model.pod import Pod

MAX_TIMEOUT_SECONDS = 15 * 60.0
ASKED_TO_WAIT = "one or more plugins asked to wait and no plugin rejected pod"

Settled = Callable[[Status | None], None]


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
        """Refuse the pod."""
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

        def leave(outcome: Status | None) -> None:
            del outcome
            self._pods.pop(uid, None)

        waiting.when_settled(leave)

    def get(self, uid: str) -> WaitingPod | None:
        """One waiting pod."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def expire(self, now: float) -> None:
        """Reject the pods whose time is up."""
        for waiting in self:
            waiting.expire(now)

    def next_deadline(self) -> float | None:
        """When the next pod runs out of time."""
        return min((waiting.deadline for waiting in self._pods.values()), default=None)


def permit(
    profile: Profile, pod: Pod, node_name: str, now: float, times: AttemptTimes = UNTIMED
) -> Status | WaitingPod | None:
    """Ask the Permit plugins: None lets the pod go on, a status refuses it."""
    with times.point("Permit") as point:
        answer = _permit(profile, pod, node_name, now, point)
        if isinstance(answer, Status):
            point.status = answer.code.value
        elif answer is not None:
            point.status = WAIT
    return answer


def _permit(
    profile: Profile, pod: Pod, node_name: str, now: float, point: PointTime
) -> Status | WaitingPod | None:
    deadlines: dict[str, tuple[float, float]] = {}
    message = ""
    for plugin in profile.permit:
        with guard(plugin, "Permit"):
            status, seconds = checked_permit_answer(plugin, plugin.permit(pod, node_name))
        point.ran(plugin.name, SUCCESS if status is None else status.code.value)
        if status is None:
            continue
        if status.code.rejected:
            return Status(status.code, status.reasons, plugin.name)
        if status.code is not Code.WAIT:
            text = f'running Permit plugin "{plugin.name}": {status.message}'
            return Status(Code.ERROR, (text,), plugin.name)
        seconds = min(seconds, MAX_TIMEOUT_SECONDS)
        deadlines[plugin.name] = (now + seconds, seconds)
        message = ", ".join((*status.reasons, ASKED_TO_WAIT))
    return WaitingPod(pod, node_name, deadlines, message) if deadlines else None
