"""What is kept of decisions for those who look on: counts by second, the latest for followers."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.fake_api import run
from moorage.errors import FollowerTooSlowError
from moorage.explain.listing import SecondRates
from moorage.explain.report import DecisionSummary
from moorage.kube.attempt_rates import WINDOW, AttemptRates, throughput
from moorage.kube.decision_feed import DecisionFeed
from moorage.ledger.entries import AttemptSummary
from moorage.ledger.moment import finish


def decision(number: int) -> DecisionSummary:
    return DecisionSummary(number, 0.0, "default/p", "scheduled", "default-scheduler")


def test_each_second_has_its_own_counts_and_seconds_without_any_are_there_too() -> None:
    rates = AttemptRates()
    rates.note(1000.1, "scheduled", 0.001)
    rates.note(1000.9, "unschedulable", 0.001)
    rates.note(1002.0, "error", 0.001)
    window = rates.window(1003.5)
    assert len(window) == WINDOW
    assert [second.time for second in window[-4:]] == [1000, 1001, 1002, 1003]
    first, gap, second, now = window[-4:]
    assert (first.scheduled, first.unschedulable, first.errors) == (1, 1, 0)
    assert gap == SecondRates(1001)
    assert (second.scheduled, second.errors) == (0, 1)
    assert now == SecondRates(1003)
    assert [rates.total(r) for r in ("scheduled", "unschedulable", "error")] == [1, 1, 1]
    assert rates.window(1000 + 2 * WINDOW) == tuple(
        SecondRates(time) for time in range(1001 + WINDOW, 1001 + 2 * WINDOW)
    )


ATTEMPTS = st.lists(
    st.builds(
        AttemptSummary,
        st.floats(1e9, 1e9 + 1e7),
        st.sampled_from(["scheduled", "unschedulable", "error"]),
        st.floats(1e-6, 30.0),
    ),
    max_size=40,
)


@given(st.lists(ATTEMPTS, max_size=3), st.integers(1, 200), st.floats(0, 2e7))
def test_a_ledger_s_attempts_are_all_counted_in_the_span_of_their_time(
    chunks: list[list[AttemptSummary]], points: int, after: float
) -> None:
    attempts = [one for chunk in chunks for one in chunk]
    found = finish(throughput(chunks, points, 1e9 + after))
    assert len(found.spans) <= points
    assert bool(found.spans) == bool(attempts)
    counted = {"scheduled": 0, "unschedulable": 0, "error": 0}
    for at, span in enumerate(found.spans):
        assert span.time == found.spans[0].time + at * found.width
        here = [one for one in attempts if span.time <= one.time < span.time + found.width]
        results = [one.result for one in here]
        assert (span.scheduled, span.unschedulable, span.errors) == (
            *(results.count("scheduled"), results.count("unschedulable")),
            results.count("error"),
        )
        for result in results:
            counted[result] += 1
        if here:
            assert span.p50 == sorted(one.seconds for one in here)[(len(here) - 1) // 2]
    assert sum(counted.values()) == len(attempts)


def test_spans_are_as_short_as_they_can_be_and_a_young_ledger_is_shown_in_two_minutes() -> None:
    def spans(seconds: float, now: float = 0.0) -> tuple[int, int]:
        attempts = [AttemptSummary(1200.0, "scheduled"), AttemptSummary(1200.0 + seconds, "error")]
        found = finish(throughput([attempts], 120, now))
        return found.width, len(found.spans)

    assert spans(1) == (1, 2)
    assert spans(1, now=1230.0) == (1, 31)
    assert spans(1, now=9999.0) == (1, 120)
    assert spans(120) == (2, 61)
    assert spans(3600) == (60, 61)
    assert spans(86_400 * 1000) == (86_400 * 16, 63)
    assert finish(throughput([], 120, 5.0)).spans == ()


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(1e-6, 30.0)), max_size=60))
def test_every_second_has_the_exact_percentiles_whenever_one_looks(
    steps: list[tuple[int, float]],
) -> None:
    rates = AttemptRates()
    now = 1000
    noted: dict[int, list[float]] = {}
    for passed, seconds in steps:
        now += passed
        rates.note(now + 0.5, "scheduled", seconds)
        noted.setdefault(now, []).append(seconds)
        told = {second.time: second for second in rates.window(now + 0.9)}
        for time, values in noted.items():
            if time not in told:
                continue  # longer ago than is remembered
            found = told[time]
            assert found.scheduled == len(values)
            for share, one in ((0.5, found.p50), (0.99, found.p99)):
                below = sum(value <= one for value in values)
                assert one in values
                assert below >= share * len(values)
                assert sum(value < one for value in values) < share * len(values)
    assert rates.total("scheduled") == len(steps)


def test_seconds_go_on_after_the_clock_was_set_back() -> None:
    rates = AttemptRates()
    rates.note(2000.5, "scheduled", 0.001)
    for time in (1000.5, 1001.5):
        rates.note(time, "scheduled", 0.001)
    assert [second.scheduled for second in rates.window(1001.9)[-2:]] == [1, 1]
    assert rates.total("scheduled") == 3


def test_followers_read_at_their_own_pace_and_those_too_slow_are_told() -> None:
    async def scenario() -> None:
        feed = DecisionFeed(length=4)
        feed.tell(decision(1))  # nobody listens
        quick, slow = feed.follow(), feed.follow()
        for number in (2, 3):
            feed.tell(decision(number))
        assert quick.news.is_set()
        assert [one.number for one in quick.take(1)] == [2]
        assert quick.news.is_set()
        assert [one.number for one in quick.take(10)] == [3]
        assert not quick.news.is_set()
        for number in range(4, 8):
            feed.tell(decision(number))
        assert [one.number for one in quick.take(10)] == [4, 5, 6, 7]
        with pytest.raises(FollowerTooSlowError):
            slow.take(10)
        slow.leave()
        assert feed.followers == 1

    run(scenario())


def test_a_closed_feed_wakes_its_followers_and_takes_no_more() -> None:
    async def scenario() -> None:
        feed = DecisionFeed()
        ended: list[str] = []
        first = feed.follow()
        first.when_closed(lambda: ended.append("first"))
        waiting = asyncio.create_task(first.news.wait())
        feed.close()
        await waiting
        assert first.closed
        assert ended == ["first"]
        late = feed.follow()
        assert late.news.is_set()
        assert late.closed

    run(scenario())
