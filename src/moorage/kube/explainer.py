"""What a live scheduler can tell of itself: pods, nodes, decisions, rates, configuration.

Owns when an explanation may run and what it is about; the explaining is `explain`'s, the
remembering `ledger`'s. Everything here runs between two decisions, in the scheduler's own thread:
an explanation, a list or a look into the ledger has a bounded time, one runs after the other, and
the scheduler gets at least as much time as they do. Extenders are not asked: whoever waits for an
answer from elsewhere would keep the scheduler, and the renewal of its lease, waiting.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from moorage.engine.cycle import Cycle
from moorage.engine.observer import ERROR, SCHEDULED, UNSCHEDULABLE
from moorage.errors import NotReadyError, UnknownObjectError
from moorage.explain.listing import (
    DecisionPage,
    KnownObject,
    LedgerFacts,
    LedgerRates,
    NodePage,
    PendingCounts,
    PodPage,
    Settings,
    Stats,
)
from moorage.explain.nodes import explain_node
from moorage.explain.pods import explain_pod
from moorage.explain.queue_state import queue_state
from moorage.explain.report import (
    DecisionExplanation,
    DecisionSummary,
    NodeExplanation,
    PodExplanation,
    QueueState,
)
from moorage.framework.profile import Profile
from moorage.kube.attempt_rates import AttemptRates, throughput
from moorage.kube.decision_feed import DecisionFeed, Follower
from moorage.kube.known_objects import known_yaml
from moorage.kube.listings import node_page, pod_page
from moorage.kube.live import LiveScheduler
from moorage.kube.timing import in_slices
from moorage.ledger import Ledger
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

Page = tuple[int, int]
"""From which row of a matrix on, and how many."""

FIX_SECONDS = 1.0
"""How long fixes may be looked for; scheduling waits meanwhile."""
MOST_ASKED = 64
"""How many explanations may wait for their turn."""
MOST_FOLLOWERS = 256
MOST_MISSED = 1000
"""How many decisions a follower who comes back is told of at most."""
LIVE = "live"
_STANDBY = "Another instance leads: the pod waits in its queue."


class Explainer:
    """Explains what a live scheduler does and did; without a ledger only what it does."""

    def __init__(
        self,
        live: LiveScheduler,
        ledger: Ledger | None = None,
        *,
        configuration: Callable[[], object] = dict,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._live = live
        self._scheduler = live.scheduler
        self._ledger = ledger
        self._configuration = configuration
        self._leads = leads
        self._turn = asyncio.Lock()
        self._asked = 0
        self._rest_until = 0.0
        self.rates = AttemptRates()
        self.feed = DecisionFeed()
        self._unsubscribe = None if ledger is None else ledger.subscribe(self._decided)

    def close(self) -> None:
        """Send those away who follow decisions, and listen no more."""
        self.feed.close()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    # Pods and nodes

    async def pods(
        self, *, pending: bool, limit: int, after: str = "", namespace: str = ""
    ) -> tuple[PodPage, str]:
        """Pods by name, after one; with the name to go on after."""
        async with self._my_turn():
            return pod_page(
                self._scheduler,
                pending=pending,
                leading=self._leads(),
                limit=limit,
                after=after,
                namespace=namespace,
            )

    async def pod(
        self,
        namespace: str,
        name: str,
        *,
        nodes: Sequence[str] = (),
        top: int = 10,
        fixes: bool = True,
        matrix: Page | None = None,
    ) -> PodExplanation:
        """Everything about one pod."""
        async with self._my_turn():
            pod, profile = self._find(namespace, name)
            for node in nodes:
                self._row(node)
            found = explain_pod(
                self._alone(),
                profile,
                pod,
                source=LIVE,
                placed_on=self._node_of(pod),
                top=top,
                nodes=tuple(nodes),
                matrix=matrix,
                fixes=False,
                queue=self._queue_of(pod),
            )
            message = found.message if found.placed else self._with_unasked(found, pod)
            found = msgspec.structs.replace(found, decision=self._latest(pod), message=message)
        if fixes and not found.schedulable and not found.placed:
            found = await self._with_fixes(found, pod)
        return found

    async def nodes(self, *, limit: int, after: str = "") -> tuple[NodePage, str]:
        """Nodes by name, after one; with the name to go on after."""
        async with self._my_turn():
            return node_page(self._scheduler.state, limit, after)

    async def node(self, name: str) -> NodeExplanation:
        """Everything about one node."""
        async with self._my_turn():
            self._row(name)
            scheduler = self._scheduler
            return explain_node(
                self._alone(),
                scheduler.profiles,
                name,
                source=LIVE,
                waiting=scheduler.queue.view.pending_pods().pods,
            )

    async def known_pod(self, namespace: str, name: str) -> KnownObject:
        """What is known of a pod, whoever is to schedule it."""
        async with self._my_turn():
            return self._known(self._pod(namespace, name))

    async def known_node(self, name: str) -> KnownObject:
        """What is known of a node."""
        async with self._my_turn():
            return self._known(self._scheduler.state.nodes.nodes[self._row(name)])

    # Decisions

    async def decisions(
        self,
        *,
        before: int | None = None,
        limit: int = 100,
        pod: str | None = None,
        namespace: str = "",
    ) -> tuple[DecisionPage, int | None]:
        """Decisions before one, the newest first; with the number to go on before."""
        ledger = self._require_ledger()
        async with self._my_turn(informed=False):
            found = ledger.summaries(before=before, limit=limit + 1, pod=pod, namespace=namespace)
        shown = tuple(found[:limit])
        return DecisionPage(shown), shown[-1].number if len(found) > limit else None

    async def decision(
        self, number: int, *, top: int = 10, matrix: Page | None = None
    ) -> DecisionExplanation:
        """One decision, whole."""
        ledger = self._require_ledger()
        async with self._my_turn(informed=False):
            return await in_slices(ledger.explaining(number, top=top, matrix=matrix))

    async def throughput(self, points: int) -> LedgerRates:
        """The whole ledger in so many spans of time at most."""
        ledger = self._require_ledger()
        async with self._my_turn(informed=False):
            return await in_slices(throughput(ledger.attempts(), points, time.time()))

    async def follow(self, last: int | None = None) -> tuple[Follower, Sequence[DecisionSummary]]:
        """Follow decisions from now on; with those after `last`, the oldest first.

        If more were made since than are told at once, the newest of them are. A `last` that is yet
        to come is another scheduler's, which was here before: then all are news.
        """
        ledger = self._require_ledger()
        if last is None:
            return self._new_follower(), ()
        async with self._my_turn(informed=False):
            # In one go: what is decided from here on comes to the follower.
            follower = self._new_follower()
            missed = ledger.summaries(limit=MOST_MISSED)
        if missed and last > missed[0].number:
            last = 0
        return follower, [summary for summary in reversed(missed) if summary.number > last]

    # The scheduler itself

    def stats(self) -> Stats:
        """What it is doing."""
        now = time.time()
        waiting = self._scheduler.queue.view.pending_pods()
        gated, apart = len(waiting.gated), len(waiting.incomplete) + len(waiting.pending)
        sizes = self._scheduler.state.sizes()
        return Stats(
            now=now,
            scheduled=self.rates.total(SCHEDULED),
            unschedulable=self.rates.total(UNSCHEDULABLE),
            errors=self.rates.total(ERROR),
            pending=PendingCounts(
                len(waiting.active),
                len(waiting.backoff),
                len(waiting.unschedulable) - gated,
                gated + apart,
            ),
            seconds=() if self._ledger is None else self.rates.window(now),
            nodes=len(self._scheduler.state),
            pods=sizes["pods"],
            leading=self._leads(),
        )

    def settings(self) -> Settings:
        """The configuration in force, and how much the ledger remembers."""
        ledger = self._ledger
        facts = LedgerFacts(on=False) if ledger is None else _facts(ledger)
        return Settings(self._configuration(), facts)

    # How it is done

    def _decided(self, summary: DecisionSummary) -> None:
        self.rates.note(summary.time, summary.result, summary.seconds)
        self.feed.tell(summary)

    def _new_follower(self) -> Follower:
        if self.feed.followers >= MOST_FOLLOWERS:
            raise NotReadyError(f"{MOST_FOLLOWERS} clients follow the decisions already.")
        return self.feed.follow()

    def _require_ledger(self) -> Ledger:
        if self._ledger is None:
            raise UnknownObjectError("This scheduler keeps no ledger: --ledger-memory is 0.")
        return self._ledger

    def _check(self) -> None:
        if not self._live.synced:
            kinds = ", ".join(sorted(self._live.informers.waiting_for))
            raise NotReadyError(
                f"This instance does not know the whole cluster: {kinds} not listed."
            )

    @asynccontextmanager
    async def _my_turn(self, *, informed: bool = True) -> AsyncIterator[None]:
        """One after the other, and never more often than the scheduler gets to decide.

        `informed`: only if the whole cluster is known; the ledger knows what it knows without.
        """
        if self._asked >= MOST_ASKED:
            raise NotReadyError(f"{MOST_ASKED} explanations are asked for at once; try again.")
        self._asked += 1
        try:
            async with self._turn:
                await self._rest()
                await self._live.between_attempts()
                if informed:
                    self._check()
                started = time.monotonic()
                try:
                    yield
                finally:
                    ended = time.monotonic()
                    self._rest_until = ended + (ended - started)
        finally:
            self._asked -= 1

    async def _rest(self) -> None:
        while (rest := self._rest_until - time.monotonic()) > 0:
            await asyncio.sleep(rest)

    def _alone(self) -> Cycle:
        """The scheduler's cycle without its extenders."""
        alone = self._scheduler.cycle.aside()
        alone.use_extenders(())
        return alone

    def _with_unasked(self, found: PodExplanation, pod: Pod) -> str:
        """The sentence about a pod, with the extenders that could still be against its node."""
        asked = [one.name for one in self._scheduler.cycle.extenders if one.is_interested(pod)]
        if found.node is None or not asked:
            return found.message
        return f"{found.message}; extenders were not asked: {', '.join(asked)}"

    async def _with_fixes(self, found: PodExplanation, pod: Pod) -> PodExplanation:
        """The same with fixes, unless the pod was placed or has gone in between."""
        # Much to load that a scheduler's start need not wait for.
        from moorage.explain.fixes import smallest_fixes

        async with self._my_turn():
            current = self._scheduler.state.listers.of(Pod).get(pod.name, pod.namespace)
            if current is None or current.uid != pod.uid or self._node_of(current):
                return found
            profile = self._scheduler.profiles.get(current.spec.scheduler_name)
            if profile is None:
                return found
            fixes = smallest_fixes(self._scheduler.cycle, profile, current, seconds=FIX_SECONDS)
            return msgspec.structs.replace(found, fixes=fixes)

    def _known(self, obj: ApiObject) -> KnownObject:
        events = self._live.recent_events.about(type(obj).__name__, obj.namespace, obj.name)
        return KnownObject(known_yaml(obj), events)

    def _pod(self, namespace: str, name: str) -> Pod:
        pod = self._scheduler.state.listers.of(Pod).get(name, namespace)
        if pod is None:
            raise UnknownObjectError(f'pods "{name}" not found in namespace "{namespace}"')
        return pod

    def _find(self, namespace: str, name: str) -> tuple[Pod, Profile]:
        pod = self._pod(namespace, name)
        profile = self._scheduler.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            mine = ", ".join(self._scheduler.profiles)
            raise UnknownObjectError(
                f'pod "{pod.key}" is for the scheduler "{pod.spec.scheduler_name}", this is {mine}'
            )
        return pod, profile

    def _row(self, node: str) -> int:
        row = self._scheduler.state.nodes.row_of.get(node)
        if row is None:
            raise UnknownObjectError(f'nodes "{node}" not found')
        return row

    def _node_of(self, pod: Pod) -> str | None:
        return pod.spec.node_name or self._scheduler.state.node_of(pod)

    def _queue_of(self, pod: Pod) -> QueueState | None:
        if pod.spec.node_name:
            return None
        if not self._leads():
            return QueueState("absent", message=_STANDBY)
        return queue_state(self._scheduler, pod)

    def _latest(self, pod: Pod) -> int | None:
        return None if self._ledger is None else self._ledger.latest_about(pod.key)


def _facts(ledger: Ledger) -> LedgerFacts:
    return LedgerFacts(
        on=True,
        bytes=ledger.used_bytes,
        limit_bytes=ledger.limit_bytes,
        decisions=len(ledger),
        directory=str(ledger.directory or ""),
    )
