"""A shadow's hands and ears: decisions go to a book, and news of pods passes by it first.

Owns the two places where a shadow differs from a live scheduler, with the same interfaces:
`ShadowExecutor` for `Executor`, `ShadowPodHandler` for `PodHandler`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from moorage.cluster.listers import Lister
from moorage.engine.scheduler import Binding, Eviction, Failure, Scheduler
from moorage.errors import ApiError, MoorageError
from moorage.framework.binding import wait_on_permit
from moorage.framework.plugin import ApiPort, DeferringPlugin
from moorage.kube.handlers import PodHandler
from moorage.kube.shadow import Shadow
from moorage.model.devices import ResourceClaim
from moorage.model.meta import ApiObject
from moorage.model.pod import ContainerExtendedResourceRequest, Pod

log = logging.getLogger(__name__)


class _Unwritten(ApiPort):
    """An API that takes everything and keeps nothing, for what plugins leave to be written."""

    def __init__(self, claims: Lister[ResourceClaim]) -> None:
        self._claims = claims

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Nothing."""

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """The claim as last seen."""
        found = self._claims.get(name, namespace)
        if found is None:
            raise ApiError(404, "NotFound", f'resourceclaims "{name}" not found')
        return found

    async def update_claim_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Nothing."""
        return claim

    async def update_claim_status(self, claim: ResourceClaim) -> ResourceClaim:
        """Nothing."""
        return claim

    async def release_claim(self, claim: ResourceClaim, user_uid: str) -> None:
        """Nothing."""

    async def delete_claim(self, claim: ResourceClaim) -> None:
        """Nothing."""

    async def write_extended_claim(
        self, pod: Pod, claim_name: str, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        """Nothing."""


class ShadowExecutor:
    """Hands that write to a book instead of the API; same interface as `Executor`."""

    def __init__(
        self,
        scheduler: Scheduler,
        shadow: Shadow,
        between_attempts: Callable[[], Awaitable[None]],
    ) -> None:
        self._scheduler = scheduler
        self._shadow = shadow
        self._between_attempts = between_attempts
        self._api = _Unwritten(scheduler.state.listers.of(ResourceClaim))
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Is anything on its way?"""
        return bool(self._tasks)

    def carry_out(self) -> None:
        """Write the outbox down."""
        self._shadow.expire()
        outbox = self._scheduler.outbox
        while outbox:
            match action := outbox.popleft():
                case Binding(waiting=None):
                    self._placed(action)
                case Binding():
                    self._spawn(self._after_permit(action))
                case Failure():
                    self._shadow.refused(action.pod, action.message)
                case Eviction():
                    # Nobody is evicted, so nobody need be waited for.
                    for victim in action.victims:
                        self._scheduler.handle.preempting.left(victim)
                    self._scheduler.preemption_done(action.cause)
        for plugin in self._scheduler.deferring:
            if plugin.has_work:
                self._spawn(self._flush(plugin))

    def cancel(self) -> None:
        """Give up on pods that wait."""
        for task in self._tasks:
            task.cancel()

    async def drain(self, seconds: float) -> None:
        """There is nothing to finish."""
        del seconds
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _placed(self, binding: Binding) -> None:
        self._scheduler.permitted(binding)
        self._shadow.decided(binding)

    async def _after_permit(self, binding: Binding) -> None:
        assert binding.waiting is not None, "only pods that wait come here"
        status = await wait_on_permit(binding.waiting)
        if status is None:
            self._placed(binding)
        else:
            await self._between_attempts()
            self._scheduler.binding_failed(binding, status, "Permit")

    async def _flush(self, plugin: DeferringPlugin) -> None:
        await plugin.flush(self._api)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("writing a decision down failed", exc_info=error)


class ShadowPodHandler(PodHandler):
    """Shows pods to the shadow before the books change."""

    def __init__(self, inner: PodHandler, shadow: Shadow) -> None:
        self._inner = inner
        self._shadow = shadow

    def on_synced(self) -> None:
        """Everything there is has been reported."""
        self._inner.on_synced()

    def on_add(self, obj: ApiObject, /) -> None:
        """A pod appeared."""
        self._inner.on_add(obj)

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """A pod changed."""
        assert isinstance(old, Pod), "the store of pods holds pods"
        assert isinstance(new, Pod), "the store of pods holds pods"
        if old.uid == new.uid:
            try:
                self._shadow.before_update(old, new)
            except MoorageError as error:
                log.error("shadow: pod %s cannot be compared: %s", new.key, error)
        else:
            self._shadow.gone(old)
        self._inner.on_update(old, new)

    def on_delete(self, old: ApiObject, /) -> None:
        """A pod is gone."""
        assert isinstance(old, Pod), "the store of pods holds pods"
        self._shadow.gone(old)
        self._inner.on_delete(old)
