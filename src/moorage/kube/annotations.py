"""Decisions written on the pods they are about, if somebody asked for that.

Owns when and how they are written: beside scheduling and never in its way, with a client of its
own. A placed pod is written once it is bound, a refused one at once; if decisions come faster than
they can be written, only the latest of each pod is, and the oldest wait in vain. What is written is
in `simulator_results`.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Iterator

from moorage.engine.observer import SCHEDULED
from moorage.engine.scheduler import Scheduler
from moorage.errors import ApiError, MoorageError
from moorage.explain.report import DecisionSummary
from moorage.kube.client import KubeClient
from moorage.kube.requests import MERGE
from moorage.kube.resources import resource_for
from moorage.kube.simulator_results import TOP, annotations, results
from moorage.kube.store import Silent
from moorage.kube.timing import Timer, WallTimer
from moorage.ledger import Ledger
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

MOST_WAITING = 1000
PAUSE_SECONDS = 0.5
_AT_ONCE = 50
_GONE = (404, 409)


class AnnotationWriter(Silent):
    """Writes decisions; it has to be told of pods, to know which are bound."""

    def __init__(
        self,
        scheduler: Scheduler,
        ledger: Ledger,
        client: KubeClient,
        timer: Timer | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._ledger = ledger
        self._client = client
        self._timer = timer or WallTimer()
        self._pods = scheduler.state.listers.of(Pod)
        self._unbound: OrderedDict[str, DecisionSummary] = OrderedDict()
        self._ready: OrderedDict[str, DecisionSummary] = OrderedDict()
        self._news = asyncio.Event()
        self._unsubscribe = ledger.subscribe(self._decided)
        self._work = asyncio.create_task(self._write_all(), name="annotations of decisions")

    async def close(self) -> None:
        """Write no more."""
        self._unsubscribe()
        self._work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._work

    # What happens

    def _decided(self, summary: DecisionSummary) -> None:
        self._ready.pop(summary.pod, None)
        self._unbound.pop(summary.pod, None)
        if summary.result == SCHEDULED:
            _put(self._unbound, summary)
        else:
            _put(self._ready, summary)
            self._news.set()

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """A pod may have been bound, as was decided."""
        assert isinstance(old, Pod)
        assert isinstance(new, Pod)
        if new.spec.node_name and not old.spec.node_name:
            summary = self._unbound.pop(new.key, None)
            if summary is not None and summary.node == new.spec.node_name:
                _put(self._ready, summary)
                self._news.set()

    def on_delete(self, old: ApiObject, /) -> None:
        """A pod is gone, and nobody has to know any more."""
        self._unbound.pop(old.key, None)
        self._ready.pop(old.key, None)

    # Writing

    async def _write_all(self) -> None:
        while True:
            await self._news.wait()
            # A ledger that is asked after each decision could not pack them together.
            await self._timer.sleep(PAUSE_SECONDS)
            batch = [
                self._ready.popitem(last=False)[1] for _ in range(min(len(self._ready), _AT_ONCE))
            ]
            if not self._ready:
                self._news.clear()
            made: list[tuple[Pod, dict[str, str]]] = []
            for summary in batch:
                with _unharmed(summary.pod):
                    made += self._made(summary)
            for pod, values in made:
                with _unharmed(pod.key):
                    await self._write(pod, values)

    async def _write(self, pod: Pod, values: dict[str, str]) -> None:
        # A pod of the same name that came later is not meant.
        body = {"metadata": {"uid": pod.uid, "annotations": values}}
        try:
            await self._client.patch(
                resource_for("Pod"), pod.namespace, pod.name, body, content_type=MERGE
            )
        except MoorageError as error:
            if not (isinstance(error, ApiError) and error.status in _GONE):
                log.error("annotations of pod %s could not be written: %s", pod.key, error)

    def _made(self, summary: DecisionSummary) -> list[tuple[Pod, dict[str, str]]]:
        """The pod of a decision and what to write on it, if there is anything to write."""
        namespace, _, name = summary.pod.partition("/")
        pod = self._pods.get(name, namespace)
        profile = self._scheduler.profiles.get(summary.profile)
        if pod is None or pod.uid != summary.uid or profile is None:
            return []
        try:
            told = self._ledger.explain(summary.number, top=TOP, matrix=(0, TOP))
        except MoorageError as error:  # there were so many since that it is forgotten
            log.warning("no annotations of pod %s: %s", pod.key, error)
            return []
        values = annotations(results(told, profile), pod.metadata.annotations)
        return [] if values is None else [(pod, values)]


@contextlib.contextmanager
def _unharmed(pod: str) -> Iterator[None]:
    """Whatever goes wrong with one pod is told, and the others have their turn."""
    try:
        yield
    except Exception:
        log.exception("annotations of pod %s could not be made or written", pod)


def _put(waiting: OrderedDict[str, DecisionSummary], summary: DecisionSummary) -> None:
    waiting[summary.pod] = summary
    if len(waiting) > MOST_WAITING:
        waiting.popitem(last=False)
