"""Leader election on a real Lease: between Moorage and itself, and with kube-scheduler."""

import signal
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from e2e.client import Api, Json, wait_for
from e2e.cluster import ControlPlane, empty
from e2e.instance import START_SECONDS, Instance, instance, let_read
from e2e.objects import node
from e2e.pod_stream import pod_stream
from e2e.schedulers import MOORAGE, PEER, Scheduler, subject

_LEASE = 4.0
_RETRY = 2.0
_FLAGS = (
    "--leader-elect=true",
    f"--leader-elect-lease-duration={_LEASE:g}s",
    "--leader-elect-renew-deadline=3s",
    f"--leader-elect-retry-period={_RETRY:g}s",
)
_NAMESPACE, _NAME = "kube-system", "kube-scheduler"
# kube-scheduler looks at the Lease again after one to 2.2 periods: first to see the last renewal,
# then to see that it has run out. Moorage watches it, and keeps what the flags promise.
_JITTERED = 2.2 * _RETRY
_AFTER_DEATH = {PEER: _LEASE + 2 * _JITTERED + 1.0, MOORAGE: _LEASE + _RETRY}
_AFTER_RELEASE = {PEER: _JITTERED + 1.0, MOORAGE: 1.0}


class Stage(NamedTuple):
    """An empty cluster of two nodes, and nobody holds the Lease."""

    server: ControlPlane
    api: Api
    namespace: str
    schedulers: Callable[[str], Scheduler]

    @contextmanager
    def instance(self, who: str, name: str, ready: bool = True, *flags: str) -> Iterator[Instance]:
        """Start one that takes part in the election with the token `who`."""
        label = f"{self.namespace}-{who}-{time.monotonic_ns()}"
        scheduler = self.schedulers(name)
        words = flags or _FLAGS
        with instance(scheduler, self.server, label, *words, who=who, ready=ready) as started:
            yield started

    def lease(self) -> Json:
        """The Lease as it is now; {} if there is none."""
        return self.api.find("Lease", _NAME, _NAMESPACE) or {}

    def holder(self) -> str:
        """Who holds the Lease; "" if nobody does."""
        return str(self.lease().get("spec", {}).get("holderIdentity") or "")

    def led_by_another_than(self, *identities: str, wait: float = START_SECONDS) -> str:
        """Wait until somebody else holds the Lease, and say who."""

        def another() -> str:
            found = self.holder()
            return "" if found in identities else found

        return wait_for("a new holder of the lease", another, wait)

    def first_binding_by(self, who: str, after: float, wait: float) -> float:
        """When `who` bound a pod for the first time after a moment, in seconds after it."""

        def found() -> list[float]:
            return [
                bound.moment - after
                for bound in self.server.bindings_in_order(self.namespace)
                if bound.who == who and bound.moment > after
            ]

        # Looked for beyond the limit, so that the message tells how late it was.
        return min(wait_for(f"a binding by {who}", found, 3 * wait + 10))

    def bound_once(self, *pods: str) -> None:
        """Look for pods that were bound twice, or never."""
        # The log is written after the answer is sent.
        bindings = self.server.bindings
        wait_for("as many bindings", lambda: bindings(self.namespace).total() >= len(pods))
        assert bindings(self.namespace) == dict.fromkeys(pods, 1)

    def binders(self) -> set[str]:
        """Whose tokens pods were bound with."""
        return {bound.who for bound in self.server.bindings_in_order(self.namespace)}


@pytest.fixture
def stage(
    request: pytest.FixtureRequest, server: ControlPlane, scheduler: Callable[[str], Scheduler]
) -> Iterator[Stage]:
    let_read(server)
    namespace = f"election-{zlib.crc32(request.node.name.encode())}"
    with closing(Api(server.admin)) as api:
        empty(api)
        api.delete("Lease", _NAME, _NAMESPACE)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for name in ("n1", "n2"):
            api.create(node(name, cpu="1000", memory="1000Gi", pods="10000"))
        yield Stage(server, api, namespace, scheduler)
        empty(api)
        api.delete("Lease", _NAME, _NAMESPACE)


# ---- who acts ----


@pytest.mark.parametrize(
    ("one", "other"),
    dict.fromkeys([(subject(), subject()), (subject(), PEER), (PEER, subject())]),
)
def test_a_standby_takes_over_from_a_leader_that_is_told_to_go_and_from_one_that_dies(
    stage: Stage, one: str, other: str
) -> None:
    with stage.instance("first", one) as first:
        before = stage.led_by_another_than()
        with (
            stage.instance("second", other) as second,
            pod_stream(stage.server, stage.namespace, "pod") as pods,
        ):
            wait_for("pods to be bound", lambda: len(stage.binders()) > 0)
            assert stage.holder() == before
            assert stage.binders() == {"first"}

            told = time.time()
            first.process.send(signal.SIGTERM)
            took = stage.first_binding_by("second", told, _AFTER_RELEASE[other])
            assert took < _AFTER_RELEASE[other]
            assert first.process.ended() == 0
            after = stage.led_by_another_than(before)

            with stage.instance("first", one) as third:
                died = time.time()
                second.process.kill()
                took = stage.first_binding_by("first", died, _AFTER_DEATH[one])
                assert took < _AFTER_DEATH[one]
                assert stage.led_by_another_than(before, after)
                pods.stop()
                wait_for("all pods to be bound", pods.all_bound)
                stage.bound_once(*pods.names)
                third.process.send(signal.SIGTERM)
                assert third.process.ended() == 0
    assert stage.holder() == ""


def test_a_leader_that_stood_still_for_too_long_writes_nothing_when_it_wakes(
    stage: Stage,
) -> None:
    with (
        stage.instance("first", subject()) as first,
        stage.instance("second", subject()),
    ):
        before = stage.led_by_another_than()
        with pod_stream(stage.server, stage.namespace, "early") as early:
            wait_for("pods to be bound", lambda: len(stage.binders()) > 0)
            early.stop()
            wait_for("all pods to be bound", early.all_bound)
        first.process.send(signal.SIGSTOP)
        # Pods that it hears of when it wakes, and takes for its own until it looks at the clock.
        with pod_stream(stage.server, stage.namespace, "late") as late:
            after = stage.led_by_another_than(before)
            wait_for("pods to be bound by another", lambda: "second" in stage.binders())
            first.process.send(signal.SIGCONT)
            assert first.process.ended(30) == 1
            late.stop()
            wait_for("all pods to be bound", late.all_bound)
            stage.bound_once(*early.names, *late.names)
        assert stage.holder() == after
    bound = {
        one.pod for one in stage.server.bindings_in_order(stage.namespace) if one.who == "first"
    }
    assert bound == set(early.names)
    assert "Leaderelection lost" in first.log()


# ---- how it looks from outside ----


@pytest.mark.parametrize("who", dict.fromkeys((PEER, subject())))
def test_a_leader_that_loses_the_lease_ends_with_1(stage: Stage, who: str) -> None:
    with stage.instance("first", who) as leader:
        stage.led_by_another_than()
        # Whoever has begun to renew fails with a conflict and then sees the thief.
        change = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}}
        stage.api.patch("Lease", _NAME, change, _NAMESPACE)
        assert leader.process.ended(30) == 1
    assert "Leaderelection lost" in leader.log()
    assert stage.holder() == "thief"


@pytest.mark.parametrize("who", dict.fromkeys((PEER, subject())))
def test_without_an_election_the_end_is_a_failure(stage: Stage, who: str) -> None:
    with stage.instance("first", who, True, "--leader-elect=false") as alone:
        alone.process.send(signal.SIGTERM)
        assert alone.process.ended() == 1
    assert 'err="finished without leader elect"' in alone.log()
    assert stage.lease() == {}


def test_lease_events_and_metrics_are_those_of_kube_scheduler(stage: Stage) -> None:
    seen = {}
    for who in dict.fromkeys((PEER, subject())):
        stage.api.delete("Lease", _NAME, _NAMESPACE)
        with stage.instance("first", who) as leader:
            identity = stage.led_by_another_than()
            with stage.instance("second", who) as standby:
                held = _plain(stage.lease(), identity)
                leads = [one.samples("leader_election_master_status") for one in (leader, standby)]
                standby.process.send(signal.SIGTERM)
                assert standby.process.ended() == 0
            leader.process.send(signal.SIGTERM)
            assert leader.process.ended() == 0
        released = _plain(stage.lease(), identity)
        # kube-scheduler does not wait until its last event is written.
        events = wait_for("the events", partial(_told, stage.api, identity, 2 - (who == PEER)))
        seen[who] = (held, released, events[:1], leads)
    assert seen[subject()] == seen[PEER]
    held, released, _, leads = seen[subject()]
    assert leads == [{("kube-scheduler",): 1.0}, {("kube-scheduler",): 0.0}]
    assert [event["message"] for event in events] == [
        *("<me> became leader", "<me> stopped leading")[: len(events)]
    ]
    assert held["spec"]["holderIdentity"] == "<me>"
    assert released["spec"]["holderIdentity"] == ""


def test_a_standby_that_delays_its_cache_is_ready_only_as_leader(
    stage: Stage, tmp_path: Path
) -> None:
    answers = {}
    for who in dict.fromkeys((PEER, subject())):
        file = tmp_path / f"{who}.yaml"
        file.write_text(yaml.safe_dump(_delayed(stage.server.kubeconfig("second"))))
        flags = (f"--config={file}",)
        with stage.instance("first", PEER) as leader:
            stage.led_by_another_than()
            with stage.instance("second", who, False, *flags) as standby:
                answers[who] = [standby.ask(path) for path in ("/readyz", "/healthz")]
                leader.process.send(signal.SIGTERM)
                assert leader.process.ended() == 0
                standby.wait("readiness", standby.ready)
                standby.process.send(signal.SIGTERM)
                assert standby.process.ended() == 0
    assert answers[subject()] == answers[PEER]
    unready, healthy = answers[subject()]
    assert unready.status == 500
    assert "[-]sched-handler-sync failed: reason withheld" in unready.body
    assert healthy.status == 200


def test_in_a_coordinated_election_the_api_server_names_the_leader(stage: Stage) -> None:
    seen = {}
    for who in dict.fromkeys((PEER, subject())):
        for left in stage.api.list("LeaseCandidate", _NAMESPACE):
            stage.api.delete("LeaseCandidate", left["metadata"]["name"], _NAMESPACE)
        stage.api.delete("Lease", _NAME, _NAMESPACE)
        flags = (*_FLAGS, "--feature-gates=CoordinatedLeaderElection=true")
        with stage.instance("first", who, True, *flags) as leader:
            identity = stage.led_by_another_than()
            leader.wait("leadership", leader.leads)
            (candidate,) = stage.api.list("LeaseCandidate", _NAMESPACE)
            assert candidate["metadata"]["name"] == identity
            renewed = leader.wait("a renewal", partial(_renewed, stage, stage.lease()))
            readiness = leader.ask("/readyz?verbose")
            leader.process.send(signal.SIGTERM)
            assert leader.process.ended() == 0
        seen[who] = (_plain(renewed, identity), _timeless(candidate), readiness)
    assert seen[subject()] == seen[PEER]
    assert seen[subject()][0]["spec"]["strategy"] == "OldestEmulationVersion"


def _renewed(stage: Stage, before: Json) -> Json | None:
    now = stage.lease()
    return now if now["spec"]["renewTime"] != before["spec"]["renewTime"] else None


def _timeless(item: Json) -> Json:
    """A spec without moments."""
    return {key: value for key, value in item["spec"].items() if not key.endswith("Time")}


def _delayed(kubeconfig: Path) -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "delayCacheUntilActive": True,
        "leaderElection": {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "2s"},
    }


def _plain(lease: Json, identity: str) -> Json:
    """A Lease without what differs from run to run."""
    spec = {
        key: "<time>" if key.endswith("Time") else value
        for key, value in lease["spec"].items()
        if value is not None
    }
    if spec.get("holderIdentity") == identity:
        spec["holderIdentity"] = "<me>"
    meta = {key: lease["metadata"][key] for key in ("name", "namespace")}
    return {"apiVersion": lease["apiVersion"], "metadata": meta, "spec": spec}


def _told(api: Api, identity: str, count: int) -> list[Json] | None:
    """The events about an instance, oldest first; None if they are not there yet."""
    found = api.call("GET", f"/api/v1/namespaces/{_NAMESPACE}/events")["items"]
    about = [event for event in found if event["message"].startswith(identity)]
    about.sort(key=lambda event: event["message"])
    if len(about) < count:
        return None
    kept = ("type", "reason", "message", "source", "count", "reportingComponent", "action")
    return [
        {key: event.get(key) for key in kept}
        | {"message": event["message"].replace(identity, "<me>")}
        | {"about": {k: event["involvedObject"].get(k) for k in ("kind", "apiVersion", "name")}}
        for event in about
    ]
