"""The ledger in memory: bounded in bytes, paged, and quick to find a pod."""

from random import Random

import pytest

from ledger.made import Maker
from moorage.errors import InputError
from moorage.ledger import Ledger
from reference.objects import make_pod


@pytest.mark.parametrize("limit", [2**20, 2**21])
def test_memory_stays_within_its_limit_and_the_newest_decisions_stay(limit: int) -> None:
    ledger, random = Ledger(limit), Random(1)
    maker = Maker(ledger, nodes=5)
    most = 0
    for number in range(2400):
        # What cannot be compressed fills it quickly.
        maker.make(1, message=random.randbytes(1500).hex())
        most = max(most, ledger.used_bytes if number % 5 == 0 else 0)
    assert limit // 2 < most <= limit
    kept = [one.number for one in ledger.summaries(limit=3000)]
    assert kept == list(range(2400, 2400 - len(kept), -1))
    assert len(kept) == len(ledger)
    assert 0 < len(kept) < 2400
    with pytest.raises(InputError, match=r"There is no decision 1: the ledger holds \d+ to 2400\."):
        ledger.explain(1)
    oldest = ledger.summaries(limit=3000)[-1].number
    assert ledger.explain(oldest, matrix=(0, 1)).matrix is not None


def test_many_kinds_of_pods_stay_within_the_limit_as_well() -> None:
    limit = 2**21
    ledger = Ledger(limit)
    maker = Maker(ledger, nodes=200)
    for number in range(600):
        maker.decide(make_pod(f"kind-{number}", cpu=f"{number + 1}m", memory=f"{number + 1}Mi"))
        assert ledger.used_bytes <= limit
    assert ledger.latest_about("default/kind-599") == 600
    assert ledger.explain(600, matrix=(0, 1)).matrix is not None


def test_alike_decisions_take_few_bytes() -> None:
    ledger = Ledger(2**24)
    maker = Maker(ledger, nodes=200)
    maker.make(100)
    ledger.flush()
    before = ledger._ring.bytes
    maker.make(1200)
    ledger.flush()
    assert (ledger._ring.bytes - before) / 1200 < 60


def test_equal_failures_take_few_bytes() -> None:
    ledger = Ledger(2**24)
    maker = Maker(ledger, nodes=200)
    maker.make(2)
    maker.make(100, message="nothing fits")
    ledger.flush()
    before = ledger._ring.bytes
    maker.make(1000, message="nothing fits")
    ledger.flush()
    assert (ledger._ring.bytes - before) / 1000 < 60


def test_attempts_in_short_are_those_of_all_decisions_packed_or_not() -> None:
    ledger = Ledger(2**24)
    maker = Maker(ledger)
    maker.make(3)
    ledger.flush()
    maker.make(2, message="nothing fits")
    short = [one for some in ledger.attempts() for one in some]
    whole = list(reversed(ledger.summaries()))
    assert [(one.time, one.result, one.seconds) for one in short] == [
        (one.time, one.result, one.seconds) for one in whole
    ]
    assert [one.result for one in short] == ["scheduled"] * 3 + ["unschedulable"] * 2


def test_pages_follow_one_another_and_leave_nothing_out() -> None:
    ledger = Ledger(2**24)
    maker = Maker(ledger)
    for _ in range(5):
        maker.make(7)
        ledger.flush()
    maker.make(3)
    pages = [ledger.summaries(limit=10)]
    while pages[-1]:
        pages.append(ledger.summaries(before=pages[-1][-1].number, limit=10))
    told = [one.number for page in pages for one in page]
    assert told == list(range(38, 0, -1))
    assert [len(page) for page in pages] == [10, 10, 10, 8, 0]


def test_the_decisions_about_one_pod_are_found() -> None:
    ledger = Ledger(2**24)
    maker = Maker(ledger)
    odd = make_pod("odd", cpu="9999")
    for _ in range(4):
        maker.make(5)
        maker.decide(odd, "too large")
        ledger.flush()
    about = ledger.summaries(pod="default/odd")
    assert [one.number for one in about] == [24, 18, 12, 6]
    assert ledger.latest_about("default/odd") == 24
    assert ledger.latest_about("default/pod-1") == 1
    assert ledger.latest_about("default/nobody") is None
    assert [one.number for one in ledger.summaries(pod="default/odd", before=18, limit=1)] == [12]


def test_a_number_that_does_not_exist_makes_nothing_be_written() -> None:
    ledger = Ledger(2**24)
    maker = Maker(ledger)
    with pytest.raises(InputError, match=r"no decision 1: the ledger holds no decisions\."):
        ledger.explain(1)
    maker.make(3)
    for number in (0, 4, 10**9):
        with pytest.raises(InputError, match=rf"no decision {number}: the ledger holds 1 to 3\."):
            ledger.explain(number)
    assert len(ledger.unpacked()) == 3
    assert ledger.explain(2).decision.pod == "default/pod-2"
    assert len(ledger.unpacked()) == 0


def test_decisions_are_listed_the_same_before_and_after_they_are_written() -> None:
    ledger = Ledger(2**24)
    maker = Maker(ledger)
    maker.make(5)
    ledger.flush()
    maker.make(4)
    maker.make(2, message="nothing fits")
    young = ledger.summaries()
    about = ledger.summaries(pod="default/pod-7", before=11)
    assert len(ledger.unpacked()) == 6, "listing packs nothing"
    assert ledger.latest_about("default/pod-3") == 3
    ledger.flush()
    assert ledger.summaries() == young
    assert ledger.summaries(pod="default/pod-7", before=11) == about
    assert [one.number for one in young] == list(range(11, 0, -1))
    assert [one.number for one in about] == [7]
