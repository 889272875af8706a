"""Extenders: services outside of the scheduler that take part in its decisions.

Owns what an extender can be asked, and the rules for its answers: whom to ask and in which order,
which nodes are left, what a refusal says, how points count, whose victims go, who binds. Must not
do any I/O: an extender that talks to somebody is made elsewhere (`kube.http_extender`) and comes
in as a value. Everything here is skipped where no extenders are configured.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.view import NodeView
from moorage.errors import ExtenderError
from moorage.framework.outcomes import FilterOutcome, PluginScores
from moorage.framework.plugin import MAX_NODE_SCORE, Candidate
from moorage.framework.status import SKIP, Code, Skip, Status
from moorage.model.node import Node
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_EXTENDER_SCORE = 10
_SCALE = MAX_NODE_SCORE // MAX_EXTENDER_SCORE


class FilterReply(msgspec.Struct, frozen=True):
    """Which nodes an extender lets pass, and why not the others."""

    names: tuple[str, ...] = ()
    as_objects: bool = False
    """The nodes came as objects rather than names: see `passing`."""
    failed: Mapping[str, str] = {}
    unresolvable: Mapping[str, str] = {}
    """Refused so that evicting pods would not help; goes before `failed`."""


class MetaVictims(msgspec.Struct, frozen=True):
    """The pods that an extender wants to go from a node, by uid."""

    uids: tuple[str, ...] = ()
    pdb_violations: int = 0


class Extender:
    """Somebody to ask (the base of those that can be); what fails raises `ExtenderError`.

    The flags say which questions it answers. All but `bind` are asked inside the scheduling cycle,
    which waits for the answer: in whatever `pause` makes, entered in the cycle's own thread. Others
    may run meanwhile, so what is asked about must be values that nobody changes.
    """

    name: str = ""
    ignorable: bool = False
    """May it fail without consequences?"""
    weight: int = 0
    filters: bool = False
    prioritizes: bool = False
    preempts: bool = False
    binds: bool = False
    pause: Callable[[], AbstractContextManager[object]] = nullcontext

    def is_interested(self, pod: Pod) -> bool:
        """Does the pod concern it at all?"""
        return True

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        """Which of the nodes may take the pod?"""
        raise NotImplementedError

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        """Points (0 to 10 by agreement) for nodes, by name; unnamed nodes get none."""
        raise NotImplementedError

    def preempt(self, pod: Pod, candidates: Sequence[Candidate]) -> Mapping[str, MetaVictims]:
        """Which nodes may lose which pods, by the node's name?"""
        raise NotImplementedError

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind the pod."""
        raise NotImplementedError


def uses_any(pod: Pod, resources: frozenset[str]) -> bool:
    """Does a container of the pod request or limit one of the resources?"""
    return any(
        not resources.isdisjoint(amounts)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for amounts in (container.resources.requests, container.resources.limits)
    )


def passing(
    extenders: Iterable[Extender],
    pod: Pod,
    nodes: NodeView,
    rows: Sequence[int],
    outcome: FilterOutcome,
) -> tuple[list[int], bool]:
    """The rows that every interested extender lets pass, one asked after the other.

    Their reasons go to `outcome`. The second value is true if an extender answered with node
    objects: upstream goes on with those, and they come without the pods that run on the nodes.
    """
    left = list(rows)
    podless = False
    for extender in extenders:
        if not left:
            break
        if not extender.filters or not extender.is_interested(pod):
            continue
        asked = [nodes.node(row) for row in left]
        with _may_be_left_out(extender):
            with extender.pause():
                reply = extender.filter(pod, asked)
            left = _rows_left(extender, reply, nodes, left)
            podless = podless or reply.as_objects
            _refuse(outcome, nodes, reply.failed, Code.UNSCHEDULABLE)
            _refuse(outcome, nodes, reply.unresolvable, Code.UNRESOLVABLE)
    return left, podless


@contextmanager
def _may_be_left_out(extender: Extender) -> Iterator[None]:
    """An error of an extender that may fail has no consequences."""
    try:
        yield
    except ExtenderError as error:
        if not extender.ignorable:
            raise
        log.info("extender %s is left out: %s", extender.name, error)


def _rows_left(
    extender: Extender, reply: FilterReply, nodes: NodeView, asked: Sequence[int]
) -> list[int]:
    # Objects may name nodes that were not asked about. Upstream takes any; here a node has to
    # exist, as there are no columns for one that an extender made up.
    known = set(asked)
    found = []
    for name in reply.names:
        row = nodes.row_of(name)
        if row is None or (row not in known and not reply.as_objects):
            raise ExtenderError(
                f"extender {_quoted(extender.name)} claims a filtered node {_quoted(name)} "
                "which is not found in the input node list"
            )
        found.append(row)
    return list(dict.fromkeys(found))


def _refuse(outcome: FilterOutcome, nodes: NodeView, texts: Mapping[str, str], code: Code) -> None:
    for name, text in texts.items():
        row = nodes.row_of(name)
        if row is None:
            outcome.unknown_nodes[name] = Status(code, (text,))
        else:
            outcome.refused[row] = Status(code, (text,))


class Points(msgspec.Struct, frozen=True):
    """What extenders add to the totals of some rows."""

    parts: tuple[PluginScores, ...]
    named: Bools
    """The rows that some extender gave points to, be it none: among them chance breaks ties."""

    @property
    def total(self) -> Ints:
        total: Ints = np.zeros(len(self.named), np.int64)
        for part in self.parts:
            total += part.weighted  # overflows as Go's numbers do
        return total


def points(extenders: Sequence[Extender], pod: Pod, nodes: Sequence[Node], order: Rows) -> Points:
    """Ask all interested extenders at once about nodes in an order; who fails gives no points."""
    place_of = {node.name: place for place, node in enumerate(nodes)}
    interested = [extender for extender in extenders if extender.is_interested(pod)]
    asked = [extender for extender in interested if extender.prioritizes]
    # Upstream counts an extender without an opinion as one that gives every node 0.
    named = np.full(len(nodes), len(asked) < len(interested))
    parts = []
    answers = _prioritize(asked, pod, [nodes[place] for place in order])
    for extender, given in zip(asked, answers, strict=True):
        raw = [0] * len(nodes)
        for host, score in given:
            place = place_of.get(host)
            if place is not None:
                raw[place] += score
                named[place] = True
        normalized = _int64s(score * _SCALE for score in raw)
        parts.append(PluginScores(extender.name, _int64s(raw), normalized, extender.weight))
    return Points(tuple(parts), named)


def _prioritize(
    asked: Sequence[Extender], pod: Pod, nodes: Sequence[Node]
) -> list[Sequence[tuple[str, int]]]:
    def ask(extender: Extender) -> Sequence[tuple[str, int]]:
        try:
            return extender.prioritize(pod, nodes)
        except ExtenderError as error:
            log.debug("extender %s gives no points: %s", extender.name, error)
            return ()

    with ExitStack() as pauses:
        for extender in asked:
            pauses.enter_context(extender.pause())
        if len(asked) < 2:
            return [ask(extender) for extender in asked]
        # Together they take as long as the slowest, not as long as all in a row.
        answers = [in_thread(partial(ask, extender)) for extender in asked]
        return [answer.result() for answer in answers]


def in_thread(work: Callable[[], T]) -> "Future[T]":
    """Begin to wait for somebody in a thread of its own, which ends with the process at the latest.

    The threads of a pool would keep a process that was told to end until the last answer.
    """
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()

    def wait() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=wait, name="extender", daemon=True).start()
    return answer


def _int64s(numbers: Iterable[int]) -> Ints:
    """Numbers as Go has them after an overflow."""
    return np.array([(number + 2**63) % 2**64 - 2**63 for number in numbers], np.int64)


def agreed_victims(
    extenders: Iterable[Extender], pod: Pod, candidates: Sequence[Candidate], nodes: NodeView
) -> Sequence[Candidate]:
    """The candidates for preemption that the extenders leave, with the victims they name."""
    for extender in extenders:
        if not extender.preempts or not extender.is_interested(pod):
            continue
        proposed = tuple(candidates)  # they may be worked out as they are looked at
        with _may_be_left_out(extender):
            with extender.pause():
                reply = extender.preempt(pod, proposed)
            named = [_candidate(extender, name, meta, nodes) for name, meta in reply.items()]
            for candidate in named:
                if not candidate.victims and not extender.ignorable:
                    node = _quoted(candidate.node_name)
                    raise ExtenderError(f"expected at least one victim pod on node {node}")
            candidates = [candidate for candidate in named if candidate.victims]
        if not candidates:
            break
    return candidates


def _candidate(extender: Extender, name: str, meta: MetaVictims, nodes: NodeView) -> Candidate:
    row = nodes.row_of(name)
    if row is None:
        raise ExtenderError(f"nodeinfo not found for node name {_quoted(name)}")
    here = {pod.uid: pod for pod in nodes.pods_on(row)}
    for uid in meta.uids:
        if uid not in here:
            # The braces are upstream's: it prints a reference to what holds the uid.
            raise ExtenderError(
                f"extender: {extender.name} claims to preempt pod (UID: &{{{uid}}}) on node: "
                f"{name}, but the pod is not found on that node"
            )
    return Candidate(name, tuple(here[uid] for uid in meta.uids), meta.pdb_violations)


async def bind_by_extender(
    extenders: Iterable[Extender], pod: Pod, node_name: str
) -> Status | Skip | None:
    """Let the first extender that binds this pod do it; SKIP if there is none."""
    for extender in extenders:
        if not extender.binds or not extender.is_interested(pod):
            continue
        try:
            with _may_be_left_out(extender):
                await extender.bind(pod, node_name)
                return None
        except ExtenderError as error:
            return Status(Code.ERROR, (str(error),))
    return SKIP


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
