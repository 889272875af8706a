"""Simulated kubelets: what becomes of a pod that is bound to a node of theirs, and of the node.

Owns which nodes are theirs, how long a pod takes to start, to finish, to be tried again and to go
(annotations of ours and KWOK's), and which addresses are given out. What is then written of a pod
is `pod_status`'s business, of a node `node_status`'s. Runs no containers.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Any, NamedTuple

from moorage.controllers import node_status, pod_status
from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.machine import StateMachine
from moorage.controllers.node_status import internal_address
from moorage.controllers.objects import (
    Json,
    annotations,
    is_finished,
    is_going,
    labels,
    meta,
    phase,
    seconds,
    spec,
    status,
)
from moorage.controllers.plan import Plan
from moorage.model.duration import parse_duration
from moorage.model.labels import Selector, selector_from_labels

FINISH_AFTER = "moorage.io/finish-after"
EXIT_CODE = "moorage.io/exit-code"
FAKE_NODE = "kwok.x-k8s.io/node"
FAKE = selector_from_labels({FAKE_NODE: "fake"})
_STAGE = "stage.kwok.x-k8s.io"

FOLLOWED: Mapping[str, str] = {"Node": "nodes.v1.", "Pod": "pods.v1."}
"""Every kind that kubelets look at, and the resource that it is listed under."""

_SELECTORS = {"pods.v1.": "spec.nodeName!="}
_OF_PODS = ("hostNetwork", "nodeName", "restartPolicy")
_OF_CONTAINERS = ("image", "lifecycle", "name", "restartPolicy")
_POD_ADDRESSES = IPv4Network("10.0.0.0/8")
_NODE_ADDRESSES = IPv4Network("172.16.0.0/12")
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 10.0, 300.0
_MOST_DOUBLINGS = 5
_MOST_RENEWALS = 250
"""However many nodes there are, renewing their leases takes at most this many writes a second."""


class KubeletOptions(NamedTuple):
    """How the simulated kubelets behave."""

    all_nodes: bool = True
    annotated: Selector | None = FAKE
    """Unless they have all nodes: theirs are those with these annotations,"""
    labelled: Selector | None = FAKE
    """or with these labels."""
    start_seconds: float = 0.0
    start_jitter_seconds: float = 0.0
    max_grace_seconds: float = 1.0
    """Nothing runs that would need longer to end, but for a `preStop` hook that sleeps."""
    job_seconds: float = 0.0
    lease_seconds: float = 10.0
    """How often a node renews its lease; 0: never."""
    seed: int = 0
    """What chance there is follows from it and a pod's uid."""


class Kubelets:
    """All kubelets of a cluster; a simulation and the runner over the API ask the same questions.

    It remembers what objects do not tell: to the fraction of a second since when a pod is where it
    is, and which addresses are taken. After a restart the times in the objects have to do.
    """

    def __init__(self, options: KubeletOptions) -> None:
        self._options = options
        self._since: dict[str, tuple[str, float]] = {}
        self._nodes: set[str] = set()
        self._pod_addresses = _Addresses(_POD_ADDRESSES)
        self._node_addresses = _Addresses(_NODE_ADDRESSES)

    @property
    def machine(self) -> StateMachine:
        """What a runner has to know."""
        return StateMachine(FOLLOWED, self.affected, self.reconcile, _of_pods, _SELECTORS)

    def affected(
        self, cluster: ClusterObjects, before: Json | None, after: Json | None
    ) -> Iterator[Key]:
        """What has to be looked at when an object has changed; either state may be missing."""
        if after is None:
            if before is not None:
                self._since.pop(meta(before)["uid"], None)
                self._nodes.discard(meta(before)["uid"])
                if before["kind"] == "Node":
                    cluster.remove(node_status.lease_of(meta(before)["name"]))
            return
        if after["kind"] == "Pod":
            self._pod_addresses.take(status(after).get("podIP"))
            if spec(after).get("nodeName"):
                yield key_of(after)
        else:
            self._node_addresses.take(internal_address(after))
            yield key_of(after)
            if before is None or self._works_on(before) != self._works_on(after):
                yield from map(key_of, cluster.on_node(meta(after)["name"]))

    def reconcile(self, cluster: ClusterObjects, obj: Json, now: float) -> Plan:
        """What is to be written for a node or a pod now, and when to look at it again."""
        plan = Plan()
        if obj["kind"] == "Node":
            if self.manages(obj):
                self._node(plan, cluster, obj, now)
            return plan
        node = cluster.get("Node", "", spec(obj).get("nodeName", ""))
        if node is None or not self._works_on(node):
            return plan
        if is_going(obj):
            self._end(plan, obj, now)
        elif phase(obj) in ("Pending", ""):
            self._start(plan, node, obj, now)
        elif phase(obj) == "Running":
            self._run(plan, obj, now)
        return plan

    def manages(self, node: Json) -> bool:
        """Is there a simulated kubelet on this node?"""
        options = self._options
        return (
            options.all_nodes
            or (options.annotated is not None and options.annotated.matches(annotations(node)))
            or (options.labelled is not None and options.labelled.matches(labels(node)))
        )

    def _works_on(self, node: Json) -> bool:
        """Is there a kubelet, and has it said so?"""
        return bool(internal_address(node)) and self.manages(node)

    # ---- nodes ----

    def _node(self, plan: Plan, cluster: ClusterObjects, node: Json, now: float) -> None:
        uid = meta(node)["uid"]
        self._nodes.add(uid)
        address = internal_address(node) or self._node_addresses.next()
        node_status.make_ready(plan, node, address, now)
        if not self._options.lease_seconds:
            return
        interval = max(self._options.lease_seconds, len(self._nodes) / _MOST_RENEWALS)
        # Nodes that came together do not stay together.
        period = interval * (1 - self._chance(uid, "lease", 0) / 4)
        node_status.keep_lease(plan, cluster, node, interval, period, now)

    # ---- pods ----

    def _start(self, plan: Plan, node: Json, pod: Json, now: float) -> None:
        jitter = self._chance(meta(pod)["uid"], "start", 0) * self._options.start_jitter_seconds
        delay = self._delay(pod, "pod-ready", self._options.start_seconds + jitter)
        if self._wait(plan, pod, "starting", delay, now):
            return
        address = internal_address(node)
        own = address if spec(pod).get("hostNetwork") else self._pod_addresses.next()
        pod_status.start(plan, pod, address, own, now)

    def _run(self, plan: Plan, pod: Json, now: float) -> None:
        if pod_status.is_backing_off(pod):
            pause = _back_off(pod_status.restarts(pod), self._lifetime(pod) or 0.0)
            if not self._wait(plan, pod, "backing off", pause, now):
                pod_status.restart(plan, pod, now)
            return
        lifetime = self._lifetime(pod)
        if lifetime is None:
            self._since.pop(meta(pod)["uid"], None)
            return
        if self._wait(plan, pod, "running", lifetime, now, pod_status.started(pod)):
            return
        code = _exit_code(pod)
        if code and spec(pod).get("restartPolicy", "Always") != "Never":
            pod_status.back_off(plan, pod, code, now)
        else:
            pod_status.finish(plan, pod, code, now)

    def _end(self, plan: Plan, pod: Json, now: float) -> None:
        grace = meta(pod).get("deletionGracePeriodSeconds") or 0
        if not grace and meta(pod).get("finalizers"):
            return  # the API server waits for others, not for a kubelet
        if not is_finished(pod):
            needed = max(self._options.max_grace_seconds, _sleep_before_end(pod))
            delay = self._delay(pod, "pod-delete", min(grace, needed))
            if self._wait(plan, pod, "ending", delay, now):
                return
            if meta(pod).get("finalizers"):
                pod_status.finish(plan, pod, pod_status.KILLED, now)
        plan.delete(pod, grace_seconds=0)

    def _wait(
        self,
        plan: Plan,
        pod: Json,
        stage: str,
        lasts: float,
        now: float,
        began: str = "",
    ) -> bool:
        """Has a stage of the pod's life not lasted that long yet? Then look again when it has.

        `began` is what the pod itself tells, for pods that somebody else saw begin.
        """
        uid = meta(pod)["uid"]
        known = self._since.get(uid)
        if known is None or known[0] != stage:
            since = seconds(began) if began and known is None else now
            known = self._since[uid] = (stage, since)
        left = known[1] + lasts - now
        plan.look_again([max(left, 0.0)])
        return left > 0

    # ---- how long things take ----

    def _delay(self, pod: Json, stage: str, default: float) -> float:
        given = annotations(pod)
        delay = duration_seconds(given.get(f"{stage}.{_STAGE}/delay"))
        jitter = duration_seconds(given.get(f"{stage}.{_STAGE}/jitter-delay"))
        if delay is None:
            return default
        if jitter is None:
            return delay
        # KWOK's jitter is the upper end of the delay, not an addition to it.
        chance = self._chance(meta(pod)["uid"], stage, pod_status.restarts(pod))
        return delay + chance * max(0.0, jitter - delay)

    def _lifetime(self, pod: Json) -> float | None:
        given = annotations(pod)
        lifetime = duration_seconds(given.get(FINISH_AFTER))
        if lifetime is not None:
            return lifetime
        owners = meta(pod).get("ownerReferences") or ()
        of_a_job = any(owner.get("kind") == "Job" for owner in owners)
        if (of_a_job and not _pauses(pod)) or f"pod-complete.{_STAGE}/delay" in given:
            return self._delay(pod, "pod-complete", self._options.job_seconds)
        return None

    def _chance(self, uid: str, what: str, time: int) -> float:
        """A number below 1 that is the same whenever and in whatever order it is asked for."""
        text = f"{self._options.seed}/{uid}/{what}/{time}"
        digest = blake2b(text.encode(), digest_size=7).digest()
        return int.from_bytes(digest) / 2**56


def _of_pods(given: Json) -> Json:
    kept = {name: given[name] for name in _OF_PODS if name in given}
    for kind in ("containers", "initContainers"):
        if given.get(kind):
            kept[kind] = [
                {name: one[name] for name in _OF_CONTAINERS if name in one} for one in given[kind]
            ]
    return kept


class _Addresses:
    """Addresses of a network, one after the other."""

    def __init__(self, network: IPv4Network) -> None:
        self._network = network
        self._last = 0

    def next(self) -> str:
        """One that was not given out yet, unless all were."""
        self._last = self._last % (self._network.num_addresses - 2) + 1
        return str(self._network[self._last])

    def take(self, address: Any) -> None:
        """Note that an address is in use, as those before it may be."""
        try:
            found = IPv4Address(address) if isinstance(address, str) else None
        except AddressValueError:
            return
        if found is not None and found in self._network:
            first = int(self._network.network_address)
            self._last = max(self._last, int(found) - first)


def duration_seconds(text: Any) -> float | None:
    """A Go duration such as `1m30s` in seconds; None if it is none."""
    try:
        return parse_duration(text).seconds if isinstance(text, str) else None
    except ValueError:
        return None


def _sleep_before_end(pod: Json) -> float:
    """The longest that a container sleeps before it ends."""
    hooks = ((one.get("lifecycle") or {}).get("preStop") or {} for one in spec(pod)["containers"])
    return max((float((hook.get("sleep") or {}).get("seconds") or 0) for hook in hooks), default=0)


def _pauses(pod: Json) -> bool:
    """Does it have Kubernetes' own image of a program that does nothing until it is ended?"""
    images = (one.get("image", "").rpartition("/")[2] for one in spec(pod)["containers"])
    return any(re.split("[:@]", image)[0] == "pause" for image in images)


def _exit_code(pod: Json) -> int:
    given = annotations(pod)
    code = given.get(EXIT_CODE) or given.get(f"pod-complete.{_STAGE}/exit-code", "0")
    return int(code) if code.lstrip("-").isdecimal() else 0


def _back_off(restarts: int, lasted: float) -> float:
    """The first restart comes at once, the next ones after 10 s, 20 s, and so on to 5 min.

    Who has run for long enough begins anew.
    """
    if not restarts or lasted >= 2 * _LONGEST_BACK_OFF:
        return 0.0
    return min(_LONGEST_BACK_OFF, _FIRST_BACK_OFF * 2.0 ** min(restarts - 1, _MOST_DOUBLINGS))
