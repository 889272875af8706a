"""Leases, their events and candidates over HTTP, against Moorage's own API server."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from kube.fake_api import run
from kube.virtual_election import lease
from moorage.apiserver.server import ApiServer
from moorage.config.types import LeaderElectionConfiguration
from moorage.errors import ApiError, UnreachableError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.leader_election import Ended, LeaderElector, election_client
from moorage.kube.lease import CORE_EVENT, LEASE, LeaderElectionRecord, LeaseEvents, LeaseLock
from moorage.kube.lease_candidate import LEASE_CANDIDATE, LeaseCandidate
from moorage.kube.resources import Resource
from moorage.kube.timing import micro_time
from moorage.model.duration import Duration

NAMESPACE, NAME = "kube-system", "kube-scheduler"
MOMENT = "2026-11-16T02:08:58.830836Z"


@asynccontextmanager
async def cluster() -> AsyncIterator[KubeClient]:
    server = ApiServer()
    await server.start()
    try:
        async with KubeClient(Access(server=server.url), qps=0, env={}) as client:
            yield client
    finally:
        await server.stop()


def _lock(client: KubeClient) -> LeaseLock:
    return LeaseLock(client, NAMESPACE, NAME, timeout=5)


def test_a_record_comes_back_as_it_was_written() -> None:
    async def scenario() -> None:
        async with cluster() as client:
            record = LeaderElectionRecord("me", 15, MOMENT, MOMENT, 2, "Oldest", "you")
            await _lock(client).create(record)
            assert await _lock(client).get() == record
            stored = await client.get(LEASE, NAMESPACE, NAME)
            assert stored["spec"] == {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "acquireTime": MOMENT,
                "renewTime": MOMENT,
                "leaseTransitions": 2,
                "strategy": "Oldest",
                "preferredHolder": "you",
            }

    run(scenario())


def test_an_update_replaces_the_spec_and_keeps_labels_and_annotations() -> None:
    async def scenario() -> None:
        async with cluster() as client:
            made = lease("other", strategy="Oldest", preferredHolder="you")
            made["metadata"] |= {"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}}
            await client.create(LEASE, NAMESPACE, made)
            lock = _lock(client)
            await lock.get()
            await lock.update(LeaderElectionRecord("me", 15, None, MOMENT, 4))
            stored = await client.get(LEASE, NAMESPACE, NAME)
            assert stored["metadata"]["labels"] == {"a": "1", "b": "2"}
            assert stored["metadata"]["annotations"] == {"c": "3"}
            written = {name: value for name, value in stored["spec"].items() if value is not None}
            assert written == {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "renewTime": MOMENT,
                "leaseTransitions": 4,
            }

    run(scenario())


def test_of_two_writers_the_second_gets_a_conflict() -> None:
    async def scenario() -> None:
        async with cluster() as client:
            first, second = _lock(client), _lock(client)
            await first.create(LeaderElectionRecord("first", 15, MOMENT, MOMENT))
            with pytest.raises(ApiError) as caught:
                await second.create(LeaderElectionRecord("second", 15, MOMENT, MOMENT))
            assert caught.value.is_conflict
            await second.get()
            await first.update(LeaderElectionRecord("first", 15, MOMENT, MOMENT, 1))
            with pytest.raises(ApiError) as caught:
                await second.update(LeaderElectionRecord("second", 15, MOMENT, MOMENT))
            assert caught.value.is_conflict

    run(scenario())


def test_a_lease_must_be_seen_before_it_is_updated() -> None:
    async def scenario() -> None:
        async with cluster() as client:
            with pytest.raises(ApiError, match="lease not initialized, call get or create first"):
                await _lock(client).update(LeaderElectionRecord())

    run(scenario())


def test_no_request_takes_longer_than_it_may() -> None:
    class Silent(KubeClient):
        async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

    async def scenario() -> None:
        client = Silent(Access(server="http://127.0.0.1:1"), env={})
        lock = LeaseLock(client, NAMESPACE, NAME, timeout=0.01)
        with pytest.raises(UnreachableError, match=r"kube-system/kube-scheduler in 0.01s"):
            await lock.get()

    run(scenario())


def test_two_electors_hand_over_within_a_second() -> None:
    config = LeaderElectionConfiguration(
        lease_duration=Duration.of_seconds(60), renew_deadline=Duration.of_seconds(40)
    )

    async def scenario() -> None:
        async with cluster() as client, election_client(client.access, config, qps=0) as own:
            events = LeaseEvents(client, "default-scheduler")
            stops = [asyncio.Event(), asyncio.Event()]
            leading = [asyncio.Event(), asyncio.Event()]
            electors = [
                LeaderElector(own, config, name, events=events) for name in ("first", "second")
            ]

            def lead(index: int) -> Callable[[], Any]:
                async def work() -> None:
                    leading[index].set()
                    await stops[index].wait()

                return work

            first = asyncio.create_task(electors[0].run(stops[0], on_started=lead(0)))
            await leading[0].wait()
            second = asyncio.create_task(electors[1].run(stops[1], on_started=lead(1)))
            while electors[1].leader != "first":
                await asyncio.sleep(0)
            stops[0].set()
            async with asyncio.timeout(1):
                await leading[1].wait()
            assert await first is Ended.STOPPED
            assert electors[1].is_leader
            assert not electors[0].is_leader
            stops[1].set()
            assert await second is Ended.STOPPED
            await events.close()
            listing = await client.list_all(CORE_EVENT, bytes, NAMESPACE)
            texts = b"".join(listing.items)
            for message in (b"first became leader", b"first stopped leading", b"second became"):
                assert message in texts

    run(scenario())


def test_events_have_the_form_of_the_legacy_recorder() -> None:
    async def scenario() -> None:
        async with cluster() as client:
            made = await client.create(LEASE, NAMESPACE, lease("me"))
            events = LeaseEvents(client, "my-scheduler")
            events.record(made, "me became leader")
            await events.close()
            listing = await client.list_all(CORE_EVENT, bytes, NAMESPACE)
            assert len(listing.items) == 1
            event = msgspec.json.decode(listing.items[0])
            assert event["involvedObject"] == {
                "kind": "Lease",
                "namespace": NAMESPACE,
                "name": NAME,
                "uid": made["metadata"]["uid"],
                "apiVersion": "coordination.k8s.io/v1",
                "resourceVersion": made["metadata"]["resourceVersion"],
            }
            assert event["metadata"]["name"].startswith(f"{NAME}.")
            assert event["source"] == {"component": "my-scheduler"}
            assert event["reportingComponent"] == "my-scheduler"
            assert (event["type"], event["reason"], event["count"]) == (
                "Normal",
                "LeaderElection",
                1,
            )

    run(scenario())


def test_a_candidate_is_made_and_answers_pings() -> None:
    async def scenario() -> None:
        async with cluster() as client:
            candidate = LeaseCandidate(
                client, "me", binary_version="1.36.4", emulation_version="1.36.0"
            )
            running = asyncio.create_task(candidate.run())
            await candidate.synced.wait()

            async def current() -> dict[str, Any]:
                return await client.get(LEASE_CANDIDATE, NAMESPACE, "me")

            async def exists() -> bool:
                try:
                    await current()
                except ApiError:
                    return False
                return True

            made = await current()
            assert made["spec"] == {
                "leaseName": "kube-scheduler",
                "binaryVersion": "1.36.4",
                "emulationVersion": "1.36.0",
                "strategy": "OldestEmulationVersion",
                "renewTime": made["spec"]["renewTime"],
            }
            # The first ping is of our time, the second of a server whose clock is far ahead.
            for pinged in (micro_time(time.time()), micro_time(4e9)):
                asked = await current()
                asked["spec"]["pingTime"] = pinged
                await client.update(LEASE_CANDIDATE, NAMESPACE, "me", asked)
                while (answer := await current())["spec"]["renewTime"] < pinged:
                    await asyncio.sleep(0)
                assert answer["spec"]["pingTime"] == pinged
            assert answer["spec"]["renewTime"] == pinged
            await client.delete(LEASE_CANDIDATE, NAMESPACE, "me")
            while not await exists():
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run(scenario())
