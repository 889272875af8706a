"""The binding cycle's plugins: wait for Permit, PreBind, Bind, PostBind.

The only async module at or below the engine: it is run by whoever talks to the API, and gets an API
port but no view of the cluster, which may have changed by then.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from moorage import log_lines
from moorage.errors import MoorageError, PluginError
from moorage.framework.extenders import Extender, bind_by_extender
from moorage.framework.guard import FAULTS, checked_status, guard, log_surprise
from moorage.framework.plugin import ApiPort
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP, Code, Skip, Status
from moorage.framework.timing import SKIPPED, SUCCESS, UNTIMED, AttemptTimes, PointTime
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.pod import Pod


async def wait_on_permit(waiting: WaitingPod) -> Status | None:
    """Wait until the pod is allowed or rejected."""
    log_lines.WAITING(waiting.pod)
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[Status | None] = loop.create_future()

    def settle(outcome: Status | None) -> None:
        if not settled.done():
            settled.set_result(outcome)

    waiting.when_settled(settle)
    status = await settled
    if status is not None and status.code.rejected:
        log_lines.REJECTED_WAITING(waiting.pod, status.message)
    elif status is not None:
        log_lines.WAITING_FAILED(status.message, waiting.pod)
    return status


def takes_time(profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED) -> bool:
    """Will something be prepared before the pod is bound?"""
    with times.point("PreBindPreFlight") as point:
        for plugin in profile.pre_bind:
            with guard(plugin, "PreBindPreFlight"):
                has_work = plugin.has_pre_bind_work(pod, node_name)
            point.ran(plugin.name, SUCCESS if has_work else SKIPPED)
            if has_work:
                return True
        point.status = SKIPPED
    return False


async def prepare(
    profile: Profile, pod: Pod, node_name: str, api: ApiPort, times: AttemptTimes = UNTIMED
) -> Status | None:
    """Run the PreBind plugins; None when all of them are done."""
    with times.point("PreBind") as point:
        for plugin in profile.pre_bind:
            try:
                with guard(plugin, "PreBind"):
                    answer = await plugin.pre_bind(pod, node_name, api)
                    status = checked_status(plugin, "PreBind", answer)
            except MoorageError as error:
                status = _error(error)
            point.answered(plugin.name, status)
            if status is not None:
                failure = _failed(status, "PreBind", plugin.name, pod, node_name)
                point.status = failure.code.value
                return failure
    return None


async def bind_pod(
    profile: Profile,
    pod: Pod,
    node_name: str,
    api: ApiPort,
    extenders: Sequence[Extender] = (),
    times: AttemptTimes = UNTIMED,
) -> Status | None:
    """Bind a pod for which everything is prepared; None when it is bound."""
    # An extender that binds the pod takes the place of the Bind plugins.
    status = await bind_by_extender(extenders, pod, node_name) if extenders else SKIP
    if isinstance(status, Skip):
        with times.point("Bind") as point:
            status = await _bind(profile, pod, node_name, api, point)
            if status is not None:
                point.status = status.code.value
    if status is not None:
        log_lines.NOT_BOUND(pod)
    return status


async def after_binding(
    profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED
) -> None:
    """Run the PostBind plugins."""
    with times.point("PostBind") as point:
        for plugin in profile.post_bind:
            try:
                await plugin.post_bind(pod, node_name)
            except FAULTS as error:
                # The pod is bound, whatever a plugin makes of the news.
                log_surprise(plugin, "PostBind", error, pod)
            point.ran(plugin.name)


async def _bind(
    profile: Profile, pod: Pod, node_name: str, api: ApiPort, point: PointTime
) -> Status | None:
    for binder in profile.bind:
        try:
            with guard(binder, "Bind"):
                answer = await binder.bind(pod, node_name, api)
                if answer is not SKIP:
                    answer = checked_status(binder, "Bind", answer)
        except MoorageError as error:
            answer = _error(error)
        if answer is SKIP:
            point.ran(binder.name, SKIPPED)
            continue
        point.answered(binder.name, answer)
        if answer is None:
            return None
        return _failed(answer, "Bind", binder.name, pod, node_name)
    return Status(Code.ERROR, ("no Bind plugin was willing to bind the pod",))


def _error(error: MoorageError) -> Status:
    # The plugin's name and the point are put before it once, by `_failed`.
    return Status(Code.ERROR, (error.detail if isinstance(error, PluginError) else str(error),))


_LINES = {
    "PreBind": (log_lines.PRE_BIND_REJECTED, log_lines.PRE_BIND_FAILED),
    "Bind": (log_lines.BIND_REJECTED, log_lines.BIND_FAILED),
}


def _failed(status: Status, phase: str, plugin: str, pod: Pod, node_name: str) -> Status:
    rejected, failed = _LINES[phase]
    if status.code.rejected:
        rejected(pod, node_name, plugin, status.message)
        return msgspec.structs.replace(status, plugin=plugin)
    failed(status.message, plugin, pod, node_name)
    return Status(Code.ERROR, (f'running {phase} plugin "{plugin}": {status.message}',), plugin)
