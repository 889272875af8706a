"""Elections step by step on virtual time."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kube.virtual_election import (
    EPOCH,
    Instance,
    InstanceApi,
    LeaseStore,
    SkewedTimer,
    config,
    lease,
    now,
    run_virtually,
)
from moorage.errors import ApiError, ConfigError, UnreachableError
from moorage.kube.leader_election import (
    Ended,
    LeaderElector,
    default_identity,
    request_timeout,
)
from moorage.kube.timing import micro_time
from moorage.log_fields import fields_of


def test_the_first_instance_creates_the_lease_and_renews_it_every_retry_period() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        acquired = store.spec
        assert acquired == {
            "holderIdentity": "first",
            "leaseDurationSeconds": 15,
            "acquireTime": micro_time(EPOCH + 0.001),
            "renewTime": micro_time(EPOCH + 0.001),
            "leaseTransitions": 0,
        }
        await asyncio.sleep(20)
        assert 9 <= len(store.writes) <= 12
        assert store.spec["acquireTime"] == acquired["acquireTime"]
        assert store.spec["renewTime"] > acquired["renewTime"]
        assert first.elector.is_leader
        assert first.metrics.status == 1
        assert first.metrics.slow == 0
        assert first.api.calls.count("get") == 1
        assert first.events.messages == ["first became leader"]
        await first.kill()

    run_virtually(scenario())


def test_a_standby_takes_a_released_lease_at_once() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        second = Instance(store, "second", seed=2)
        await asyncio.sleep(7.3)
        assert second.elector.leader == "first"
        assert second.leaders == ["first"]
        assert not second.elector.is_leader
        asked_at = now()
        first.stop.set()
        assert await first.task is Ended.STOPPED
        await second.started.wait()
        assert now() - asked_at < 0.1
        assert store.spec["leaseTransitions"] == 1
        assert first.events.messages[-1] == "first stopped leading"
        assert first.metrics.status == 0
        assert first.lost_at is None
        await second.kill()

    run_virtually(scenario())


def test_a_released_lease_has_no_holder_one_second_and_its_transitions() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        store.put(lease("gone", seconds=1))
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(5)
        first.stop.set()
        await first.task
        moment = store.spec["renewTime"]
        assert store.spec == {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": 4,
        }

    run_virtually(scenario())


@pytest.mark.parametrize("watchable", [True, False])
def test_a_standby_follows_a_killed_leader(watchable: bool) -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        second = Instance(store, "second", seed=5)
        second.api.watchable = watchable
        await asyncio.sleep(31.9)
        killed_at = now()
        await first.kill()
        await second.started.wait()
        # Without a watch a renewal may be seen a jittered retry period late, as upstream.
        assert now() - killed_at <= (15 + 2 if watchable else 15 + 2 * 2.2)
        last_of_first = max(time for time, holder in store.writes if holder == "first")
        first_of_second = min(time for time, holder in store.writes if holder == "second")
        assert first_of_second - last_of_first >= 15
        await second.kill()

    run_virtually(scenario())


def test_a_foreign_lease_counts_from_when_it_was_seen_whatever_its_times_say() -> None:
    async def scenario() -> None:
        for skew in (-86400.0, 86400.0):
            store = LeaseStore()
            store.put(lease("gone", seconds=15))
            begun = now()
            first = Instance(store, "first", skew=skew)
            await first.started.wait()
            assert 15 <= now() - begun <= 15.1
            await first.kill()

    run_virtually(scenario())


def test_an_outage_shorter_than_the_renew_deadline_costs_nothing() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(1)
        first.api.down = True
        await asyncio.sleep(8.5)
        first.api.down = False
        await asyncio.sleep(20)
        assert first.leading
        assert not first.task.done()
        await first.kill()

    run_virtually(scenario())


def test_an_outage_beyond_the_renew_deadline_loses_the_lease() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(5)
        last_renewal = store.writes[-1][0]
        first.api.down = True
        assert await first.task is Ended.LOST
        assert first.lost_at is not None
        assert 10 < first.lost_at - last_renewal <= 12.1
        assert not first.leading
        assert first.metrics.status == 0
        assert first.events.messages[-1] == "first stopped leading"

    run_virtually(scenario())


def test_hung_requests_do_not_keep_a_leader_past_its_lease() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first", config(3, 2.9, 2))
        second = Instance(store, "second", config(3, 2.9, 2), seed=9)
        await first.started.wait()
        first.api.trouble = lambda verb: (0.5, 1e6, False, False)
        await second.started.wait()
        assert first.lost_at is not None
        assert first.lost_at < now()
        assert await first.task is Ended.LOST
        # It gave up, and then one bounded effort to give the lease back.
        assert first.ended_at is not None
        assert first.ended_at - first.lost_at <= 1.6
        await second.kill()

    run_virtually(scenario())


def test_a_lost_lease_is_given_back_only_when_nothing_is_led_any_more() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        first.api.next_errors["update"] = [ApiError(500, "InternalError", "x")] * 50
        first.at_loss = first.api.next_errors.clear
        assert await first.task is Ended.LOST
        assert first.lost_at is not None
        assert store.writes[-1][1] == ""
        assert store.writes[-1][0] > first.lost_at

    run_virtually(scenario())


def test_a_lease_deleted_by_hand_is_made_again_by_its_leader() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(5)
        store.delete()
        await asyncio.sleep(3)
        assert store.spec["holderIdentity"] == "first"
        assert first.leading
        await first.kill()

    run_virtually(scenario())


def test_a_lease_deleted_by_hand_never_has_two_leaders() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first, second = Instance(store, "first"), Instance(store, "second", seed=2)
        await first.started.wait()
        await asyncio.sleep(5.7)
        store.delete()  # the standby notices first
        await second.started.wait()
        assert await first.task is Ended.LOST
        assert store.spec["holderIdentity"] == "second"
        await second.kill()

    run_virtually(scenario())


def test_a_lease_given_to_another_by_hand_is_lost_at_the_next_renewal() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(5)
        edited_at = now()
        store.edit(holderIdentity="another")
        assert await first.task is Ended.LOST
        assert now() - edited_at <= 2.1
        assert store.spec["holderIdentity"] == "another"

    run_virtually(scenario())


def test_a_conflict_is_answered_by_reading_the_lease_anew() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(5)
        assert store.lease is not None
        store.put({**store.lease, "metadata": {**store.lease["metadata"], "labels": {"a": "b"}}})
        await asyncio.sleep(4)
        assert first.leading
        assert first.metrics.slow == 1
        assert store.lease["metadata"]["labels"] == {"a": "b"}
        await first.kill()

    run_virtually(scenario())


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"leaseDurationSeconds": "soon"}, "`$.spec.leaseDurationSeconds`"),
        ({"renewTime": "yesterday"}, "`$.spec.renewTime`"),
    ],
)
def test_a_malformed_lease_is_left_alone_and_named(
    spec: dict[str, Any], complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        store = LeaseStore()
        store.put(lease("gone") | {"spec": {"holderIdentity": "gone"} | spec})
        first = Instance(store, "first")
        await asyncio.sleep(60)
        assert first.started_at is None
        assert len(store.writes) == 1
        store.put(lease(""))
        await first.started.wait()
        assert now() < 60.1
        await first.kill()

    with caplog.at_level(logging.ERROR):
        run_virtually(scenario())
    assert caplog.records[0].getMessage() == "Error retrieving lease lock"
    told = fields_of(caplog.records[0]) or {}
    assert told["lock"] == "kube-system/kube-scheduler"
    assert str(told["err"]).startswith("Lease kube-system/kube-scheduler: ")
    assert complaint in str(told["err"])


@pytest.mark.parametrize("holder", [None, "", "first"])
def test_a_lease_without_holder_or_with_ones_own_name_is_taken_at_once(holder: str | None) -> None:
    async def scenario() -> None:
        store = LeaseStore()
        store.put(lease(holder))
        first = Instance(store, "first")
        await first.started.wait()
        assert now() < 0.1
        assert store.spec["leaseTransitions"] == (3 if holder else 4)
        await first.kill()

    run_virtually(scenario())


def test_a_standby_stops_at_once() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        store.put(lease("another", seconds=3600))
        first = Instance(store, "first")
        await asyncio.sleep(10)
        first.stop.set()
        asked_at = now()
        assert await first.task is Ended.STOPPED
        assert now() - asked_at < 0.01
        assert len(store.writes) == 1
        assert first.started_at is None

    run_virtually(scenario())


@pytest.mark.parametrize("unheard", [False, True])
def test_a_stop_during_the_first_write_leaves_no_holder_behind(unheard: bool) -> None:
    async def scenario() -> None:
        store = LeaseStore()

        def slow(verb: str) -> tuple[float, float, bool, bool]:
            return (0.5, 0.5, False, unheard) if verb == "create" else (0.001, 0.001, False, False)

        first = Instance(store, "first", trouble=slow)
        await asyncio.sleep(0.3)
        first.stop.set()
        assert await first.task is Ended.STOPPED
        assert first.started_at is None
        assert store.spec["holderIdentity"] == ""

    run_virtually(scenario())


@pytest.mark.parametrize("pause", [0.0, 0.0005, 0.0015, 0.5, 1.9995])
def test_a_cancelled_elector_gives_the_lease_back_completely(pause: float) -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(pause)
        first.task.cancel()
        await asyncio.sleep(0.0005)  # in the middle of the release
        first.task.cancel()
        await asyncio.gather(first.task, return_exceptions=True)
        assert first.task.cancelled()
        assert first.lost_at is not None
        assert store.spec["holderIdentity"] == ""

    run_virtually(scenario())


def test_what_is_led_has_a_grace_before_the_lease_goes() -> None:
    async def scenario() -> None:
        for seconds, released_after in ((0.2, 0.2), (3.0, 0.5)):
            store = LeaseStore()
            first = Instance(store, "first")
            first.work_seconds = seconds
            await first.started.wait()
            asked_at = now()
            first.stop.set()
            assert await first.task is Ended.STOPPED
            assert store.writes[-1][1] == ""
            assert store.writes[-1][0] - asked_at == pytest.approx(released_after, abs=0.01)
            assert now() - asked_at >= seconds

    run_virtually(scenario())


def test_an_error_of_what_is_led_gives_the_lease_back_and_goes_on() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        api = InstanceApi(store)
        elector = LeaderElector(api, config(), "first", timer=SkewedTimer(), clock=now)

        async def broken() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await elector.run(asyncio.Event(), on_started=broken)
        assert store.spec["holderIdentity"] == ""
        assert now() < 0.1

    run_virtually(scenario())


def test_a_release_repeats_itself_when_the_lease_has_changed() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(1)
        assert store.lease is not None
        store.put({**store.lease, "metadata": {**store.lease["metadata"], "labels": {"a": "b"}}})
        first.stop.set()
        await first.task
        assert store.spec["holderIdentity"] == ""

    run_virtually(scenario())


def test_a_release_spares_the_lease_of_another() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        await asyncio.sleep(1)
        store.edit(holderIdentity="another")
        first.stop.set()
        assert await first.task is Ended.STOPPED
        assert store.spec["holderIdentity"] == "another"

    run_virtually(scenario())


def test_the_watch_is_one_connection_and_ends_with_the_waiting() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        second = Instance(store, "second")
        await asyncio.sleep(100)
        assert second.api.calls.count("watch") == 1
        assert second.api.calls.count("get") <= 51
        first.stop.set()
        await second.started.wait()
        await asyncio.sleep(100)
        assert second.api.calls.count("watch") == 1
        await second.kill()

    run_virtually(scenario())


def test_is_leader_ends_with_the_lease_even_if_the_loop_is_stuck() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        await first.started.wait()
        assert first.elector.is_leader
        assert first.elector.holds_lease
        loop: Any = asyncio.get_running_loop()
        loop.now += 15
        assert not first.elector.is_leader
        assert not first.elector.holds_lease
        await first.kill()

    run_virtually(scenario())


def test_the_health_check_complains_of_a_leader_that_neither_renews_nor_ends() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first")
        assert first.elector.check(20) is None
        await first.started.wait()
        loop: Any = asyncio.get_running_loop()
        loop.now += 34.9
        assert first.elector.check(20) is None
        loop.now += 0.2
        text = "failed election to renew leadership on lease kube-scheduler"
        assert first.elector.check(20) == text
        await first.kill()

    run_virtually(scenario())


@pytest.mark.parametrize(
    ("times", "identity", "text"),
    [
        ((10, 10, 2), "me", "leaseDuration must be greater than renewDeadline"),
        ((15, 2.4, 2), "me", "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ((1, 0, -1), "me", "renewDeadline must be greater than zero"),
        ((1, 0.5, 0), "me", "retryPeriod must be greater than zero"),
        ((0, -1, -2), "me", "leaseDuration must be greater than zero"),
        ((15, 10, 2), "", "Lock identity is empty"),
    ],
)
def test_parameters_are_refused_in_upstreams_words(
    times: tuple[float, float, float], identity: str, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        LeaderElector(InstanceApi(LeaseStore()), config(*times), identity)
    assert str(caught.value) == text


def test_identities_differ_and_requests_are_bounded() -> None:
    assert default_identity() != default_identity()
    assert request_timeout(config()) == 5.0
    assert request_timeout(config(2, 1.5, 1)) == 1.0


Prepare = Callable[[Instance], None]


def _refuses_reads(instance: Instance) -> None:
    instance.api.next_errors["get"] = [ApiError(403, "Forbidden", "no")] * 3


def _refuses_creation(instance: Instance) -> None:
    instance.api.next_errors["create"] = [
        ApiError(500, "InternalError", "no"),
        UnreachableError("no", maybe_applied=True),
    ]


@pytest.mark.parametrize("prepare", [_refuses_reads, _refuses_creation])
def test_refused_requests_are_tried_again(prepare: Prepare) -> None:
    async def scenario() -> None:
        first = Instance(LeaseStore(), "first")
        prepare(first)
        await first.started.wait()
        assert 2 <= now() <= 3 * 4.4 + 0.1
        await first.kill()

    run_virtually(scenario())


# ---- coordinated ----


def test_an_assigned_lease_is_renewed_and_an_unassigned_one_never_taken() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        first = Instance(store, "first", coordinated=True)
        await asyncio.sleep(30)
        assert store.lease is None
        store.put(lease("another", strategy="OldestEmulationVersion"))
        await asyncio.sleep(60)
        assert first.started_at is None
        chosen_at = now()
        store.edit(holderIdentity="first", acquireTime=None, renewTime=micro_time(EPOCH + now()))
        await first.started.wait()
        assert now() - chosen_at < 0.1
        await asyncio.sleep(30)
        assert first.leading
        assert store.spec["strategy"] == "OldestEmulationVersion"
        assert store.spec["acquireTime"] is None
        assert store.spec["leaseTransitions"] == 3
        await first.kill()

    run_virtually(scenario())


def test_the_end_of_a_term_ends_leading_before_the_lease_is_given_back() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        store.put(lease("first", strategy="OldestEmulationVersion"))
        first = Instance(store, "first", coordinated=True)
        await first.started.wait()
        marked_at = now()
        store.edit(preferredHolder="second")
        assert await first.task is Ended.LOST
        assert first.lost_at is not None
        assert first.lost_at - marked_at <= 2.1
        assert store.writes[-1][1] == ""
        assert store.writes[-1][0] > first.lost_at

    run_virtually(scenario())
