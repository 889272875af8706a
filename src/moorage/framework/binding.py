"""The binding cycle's plugins: wait for Permit, PreBind, Bind, PostBind.

The only async module at or below the engine: it is run by whoever talks to the API, and gets an API
port but no view of the cluster, which may have changed by then.
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from moorage.errors import MoorageError
from moorage.framework.extenders import Extender, bind_by_extender
from moorage.framework.guard import guard
from moorage.framework.permit import WaitingPod
from moorage.framework.plugin import ApiPort
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP, Code, Status
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


async def wait_on_permit(waiting: WaitingPod) -> Status | None:
    """Wait until the pod is allowed or rejected."""
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[Status | None] = loop.create_future()

    def settle(outcome: Status | None) -> None:
        if not settled.done():
            settled.set_result(outcome)

    waiting.when_settled(settle)
    return await settled


def takes_time(profile: Profile, pod: Pod, node_name: str) -> bool:
    """Will something be prepared before the pod is bound?"""
    for plugin in profile.pre_bind:
        with guard(plugin, "PreBindPreFlight"):
            if plugin.has_pre_bind_work(pod, node_name):
                return True
    return False


async def prepare(profile: Profile, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
    """Run the PreBind plugins; None when all of them are done."""
    for plugin in profile.pre_bind:
        with guard(plugin, "PreBind"):
            status = await plugin.pre_bind(pod, node_name, api)
        if status is not None:
            return _failed(status, "PreBind", plugin.name)
    return None


async def bind_pod(
    profile: Profile,
    pod: Pod,
    node_name: str,
    api: ApiPort,
    extenders: Sequence[Extender] = (),
) -> Status | None:
    """Bind a pod for which everything is prepared; None when it is bound."""
    # An extender that binds the pod takes the place of the Bind plugins.
    bound = await bind_by_extender(extenders, pod, node_name) if extenders else SKIP
    status = await _bind(profile, pod, node_name, api) if bound is SKIP else bound
    if status is not None:
        return status
    for plugin in profile.post_bind:
        try:
            await plugin.post_bind(pod, node_name)
        except Exception:
            # The pod is bound, whatever a plugin makes of the news.
            log.exception("plugin %s failed after pod %s was bound", plugin.name, pod.key)
    return None


async def _bind(profile: Profile, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
    for binder in profile.bind:
        try:
            with guard(binder, "Bind"):
                answer = await binder.bind(pod, node_name, api)
        except MoorageError as error:
            answer = Status(Code.ERROR, (str(error),))
        if answer is SKIP:
            continue
        if answer is None:
            return None
        return _failed(answer, "Bind", binder.name)
    return Status(Code.ERROR, ("no Bind plugin was willing to bind the pod",))


def _failed(status: Status, phase: str, plugin: str) -> Status:
    if status.code.rejected:
        return msgspec.structs.replace(status, plugin=plugin)
    return Status(Code.ERROR, (f'running {phase} plugin "{plugin}": {status.message}',), plugin)
