"""Decisions as annotations on pods, in the format of kube-scheduler-simulator.

Owns keys, shapes and sizes, and when annotations are written: beside scheduling and never in its
way, with a client of its own. A placed pod is annotated once it is bound, an unschedulable one at
once. If decisions come faster than they can be written, only the latest decision of each pod is
written, and the oldest are dropped.

Every value is JSON in a string, as the simulator's web page reads it. All annotations of a pod
together may take 256 KiB, and clients may have put in some of their own. So only the best nodes are
listed, and as many earlier attempts as there is room for.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from moorage.engine.observer import SCHEDULED
from moorage.engine.scheduler import Scheduler
from moorage.errors import ApiError, MoorageError
from moorage.explain.report import DecisionExplanation, DecisionSummary, NodeScores, NodeVerdicts
from moorage.framework.plugin import Plugin
from moorage.framework.profile import Profile
from moorage.kube.client import KubeClient
from moorage.kube.requests import MERGE
from moorage.kube.resources import resource_for
from moorage.kube.store import Handler
from moorage.kube.timing import Timer, WallTimer, in_slices
from moorage.ledger import Ledger
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

PREFIX = "kube-scheduler-simulator.sigs.k8s.io/"
HISTORY = f"{PREFIX}result-history"
TOP = 10
"""Of how many nodes scores and rejections are written."""
LIMIT = 256 * 1024
"""What the API server allows for all annotations of a pod, keys included."""
_OURS = 96 * 1024
_SPARE = 32 * 1024
"""Room that is left to others."""
_PASSED = "passed"
_SUCCESS = "success"
_VICTIM = "preemption victim"
_EVICTS = "DefaultPreemption"
"""Others that are asked when no node takes a pod free no node of pods."""

Results = dict[str, str]
Table = dict[str, dict[str, str]]
log = logging.getLogger(__name__)

MOST_WAITING = 1000
PAUSE_SECONDS = 0.5
_AT_ONCE = 50
_GONE = (404, 409)


def results(explained: DecisionExplanation, profile: Profile) -> Results:
    """The annotations of one attempt."""
    placed = explained.decision.result == SCHEDULED
    made: dict[str, object] = {
        "prefilter-result-status": _pre_filter(explained, profile),
        "prefilter-result": {},
        "filter-result": _filter(explained, profile),
        "postfilter-result": _post_filter(explained, profile),
        "prescore-result": _scored(explained, profile),
        "score-result": _scores(explained.scores, final=False),
        "finalscore-result": _scores(explained.scores, final=True),
        "reserve-result": _all(profile.reserve) if placed else {},
        "permit-result": _all(profile.permit) if placed else {},
        "permit-result-timeout": {},
        "prebind-result": _all(profile.pre_bind) if placed else {},
        "bind-result": _all(profile.bind[:1]) if placed else {},
    }
    chosen = {PREFIX + "selected-node": explained.decision.node} if placed else {}
    return {**{PREFIX + name: _text(value) for name, value in made.items()}, **chosen}


def annotations(made: Results, known: Mapping[str, str]) -> Results | None:
    """What to write on a pod with these annotations; None if nothing is new or there is no room."""
    if all(known.get(key) == value for key, value in made.items()):
        return None
    others = {key: value for key, value in known.items() if not key.startswith(PREFIX)}
    room = min(_OURS, LIMIT - _SPARE - size(others))
    left = room - size(made) - len(HISTORY)
    if left < 0:
        return None
    attempts = [*_history(known.get(HISTORY, "")), made]
    while len(attempts) > 1 and len(_text(attempts).encode()) > left:
        del attempts[0]
    history = _text(attempts)
    return {**made, HISTORY: history if len(history.encode()) <= left else "[]"}


def size(values: Mapping[str, str]) -> int:
    """How much of the limit annotations take."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in values.items())


def _pre_filter(explained: DecisionExplanation, profile: Profile) -> dict[str, str]:
    """Everybody agreed, or somebody refused and those behind were not asked."""
    refused = {one.plugin: one.reason for one in explained.rejections if one.point == "PreFilter"}
    skipped = dict.fromkeys(explained.skipped_filter_plugins, "")
    found: dict[str, str] = {}
    for plugin in profile.pre_filter:
        found[plugin.name] = refused.get(plugin.name, skipped.get(plugin.name, _SUCCESS))
        if plugin.name in refused:
            break
    return found


def _filter(explained: DecisionExplanation, profile: Profile) -> Table:
    rows = explained.matrix.rows if explained.matrix is not None else ()
    table = {row.node: _row(row) for row in rows[:TOP]}
    skipped = set(explained.skipped_filter_plugins)
    passed = {p.name: _PASSED for p in profile.filter if p.name not in skipped}
    # A node that was scored had passed everything.
    return {**table, **{node.node: passed for node in explained.scores[:TOP]}}


def _row(row: NodeVerdicts) -> dict[str, str]:
    """Up to the first refusal, as upstream asks no further."""
    found: dict[str, str] = {}
    for verdict in row.verdicts:
        if verdict.verdict == "ok":
            found[verdict.plugin] = _PASSED
        elif verdict.verdict == "rejected":
            found[verdict.plugin] = ", ".join(verdict.reasons)
            break
    return found


def _post_filter(explained: DecisionExplanation, profile: Profile) -> Table:
    nominated = explained.decision.nominated_node
    if explained.decision.result == SCHEDULED or not nominated or not profile.post_filter:
        return {}
    names = [plugin.name for plugin in profile.post_filter]
    return {nominated: {_EVICTS if _EVICTS in names else names[-1]: _VICTIM}}


def _scored(explained: DecisionExplanation, profile: Profile) -> dict[str, str]:
    """Who prepared scores; an empty text means that it skipped."""
    if not explained.scores:
        return {}
    skipped = set(explained.skipped_score_plugins)
    return {p.name: "" if p.name in skipped else _SUCCESS for p in profile.pre_score}


def _scores(nodes: Sequence[NodeScores], *, final: bool) -> Table:
    return {
        node.node: {part.plugin: str(part.weighted if final else part.raw) for part in node.parts}
        for node in nodes[:TOP]
    }


def _all(plugins: Sequence[Plugin]) -> dict[str, str]:
    return {plugin.name: _SUCCESS for plugin in plugins}


def _history(text: str) -> list[Results]:
    """Earlier attempts; whatever else stands there is given up."""
    try:
        return msgspec.json.decode(text or "[]", type=list[dict[str, str]])
    except msgspec.MsgspecError:
        return []


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


class AnnotationWriter(Handler):
    """Writes decisions; a handler of pods, to know which are bound."""

    def __init__(
        self, scheduler: Scheduler, ledger: Ledger, client: KubeClient, timer: Timer | None = None
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
                    made += await self._made(summary)
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

    async def _made(self, summary: DecisionSummary) -> list[tuple[Pod, dict[str, str]]]:
        """The pod of a decision and what to write on it, if there is anything to write."""
        namespace, _, name = summary.pod.partition("/")
        pod = self._pods.get(name, namespace)
        profile = self._scheduler.profiles.get(summary.profile)
        if pod is None or pod.uid != summary.uid or profile is None:
            return []
        try:
            explained = await in_slices(
                self._ledger.explaining(summary.number, top=TOP, matrix=(0, TOP))
            )
        except MoorageError as error:  # there were so many since that it is forgotten
            log.warning("no annotations of pod %s: %s", pod.key, error)
            return []
        values = annotations(results(explained, profile), pod.metadata.annotations)
        return [] if values is None else [(pod, values)]


@contextlib.contextmanager
def _unharmed(pod: str) -> Iterator[None]:
    """Whatever goes wrong with one pod is logged, and the others are written."""
    try:
        yield
    except Exception:
        log.exception("annotations of pod %s could not be made or written", pod)


def _put(waiting: OrderedDict[str, DecisionSummary], summary: DecisionSummary) -> None:
    waiting[summary.pod] = summary
    if len(waiting) > MOST_WAITING:
        waiting.popitem(last=False)
