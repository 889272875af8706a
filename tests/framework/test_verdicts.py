import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.framework.outcomes import first_rejection, first_rejections
from moorage.framework.status import FURTHER, Code, Reason, Verdicts, worst

CPU = Reason("Insufficient cpu")
MEMORY = Reason("Insufficient memory")
TAINT = Reason("tainted", Code.UNRESOLVABLE)
BROKEN = Reason("broken", Code.ERROR)
LATER = Reason("later", Code.PENDING)


def reasons(count: int, prefix: str = "reason") -> list[Reason]:
    return [Reason(f"{prefix} {i}") for i in range(count)]


def told(verdicts: Verdicts) -> list[list[str]]:
    return [[r.text for r in verdicts.reasons_of(row)] for row in range(len(verdicts))]


def test_a_new_answer_accepts_every_row() -> None:
    verdicts = Verdicts(3, [CPU])
    assert not verdicts.rejected.any()
    assert told(verdicts) == [[], [], []]


def test_several_reasons_of_a_row_are_all_told_in_the_plugins_order() -> None:
    verdicts = Verdicts(3, [CPU, MEMORY])
    verdicts.reject(np.array([True, False, True]), MEMORY)
    verdicts.reject(np.array([True, False, False]), CPU)
    assert told(verdicts) == [[CPU.text, MEMORY.text], [], [MEMORY.text]]
    assert verdicts.rejected.tolist() == [True, False, True]


def test_one_row_can_be_refused_by_its_number() -> None:
    assert told(Verdicts(3).reject(1, CPU)) == [[], [CPU.text], []]


def test_refusing_twice_for_a_reason_changes_nothing() -> None:
    verdicts = Verdicts(1).reject(0, CPU).reject(0, CPU)
    assert verdicts.reasons == [CPU]
    assert told(verdicts) == [[CPU.text]]


def test_the_same_text_with_another_code_is_another_reason() -> None:
    hopeless = Reason(CPU.text, Code.UNRESOLVABLE)
    verdicts = Verdicts(2).reject(0, CPU).reject(1, hopeless)
    assert verdicts.with_code([Code.UNRESOLVABLE]).tolist() == [False, True]
    assert verdicts.with_code([Code.UNSCHEDULABLE]).tolist() == [True, False]
    assert verdicts.with_code([]).tolist() == [False, False]


@pytest.mark.parametrize(
    ("count", "width"),
    [(1, 8), (8, 8), (9, 16), (16, 16), (17, 32), (32, 32), (33, 64), (64, 64)],
)
def test_bits_are_as_narrow_as_the_reasons_allow(count: int, width: int) -> None:
    assert Verdicts(1, reasons(count)).bits.dtype.itemsize * 8 == width


@pytest.mark.parametrize("count", [9, 17, 33, 60], ids=lambda n: f"{n} reasons")
def test_bits_widen_as_reasons_occur_without_losing_any(count: int) -> None:
    verdicts = Verdicts(count)
    for row, reason in enumerate(reasons(count)):
        verdicts.reject(row, reason)
    assert told(verdicts) == [[reason.text] for reason in reasons(count)]
    assert verdicts.rejected.all()


def test_reasons_beyond_the_60th_are_told_as_further_ones_and_keep_their_code() -> None:
    verdicts = Verdicts(203)
    for row, reason in enumerate(reasons(200)):
        verdicts.reject(row, reason)
    for row, reason in enumerate((TAINT, BROKEN, LATER), start=200):
        verdicts.reject(row, reason)
    assert told(verdicts) == [[f"reason {i}"] for i in range(60)] + [[FURTHER]] * 143
    assert [worst(verdicts.reasons_of(row)) for row in (0, 199, 200, 201, 202)] == [
        Code.UNSCHEDULABLE,
        Code.UNSCHEDULABLE,
        TAINT.code,
        BROKEN.code,
        LATER.code,
    ]


def test_further_reasons_are_told_in_full_again_once_there_is_room() -> None:
    verdicts = Verdicts(80)
    for row, reason in enumerate(reasons(80)):
        verdicts.reject(row, reason)
    verdicts.splice(np.arange(70), Verdicts(70).reject(3, CPU))
    verdicts.splice(np.array([79]), Verdicts(1).reject(0, MEMORY))
    assert told(verdicts)[3] == [CPU.text]
    assert told(verdicts)[78:] == [[FURTHER], [MEMORY.text]]


def test_more_than_64_reasons_at_construction_are_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="at most 64 reasons apart"):
        Verdicts(1, reasons(65))


def test_reasons_that_no_row_has_any_more_make_room_for_others() -> None:
    verdicts = Verdicts(2)
    verdicts.reject(0, CPU)
    for i in range(200):
        newer = Verdicts(1).reject(0, Reason(f"at {i}"))
        verdicts.splice(np.array([1]), newer)
    assert told(verdicts) == [[CPU.text], ["at 199"]]


def test_a_splice_replaces_rows_by_a_newer_answer() -> None:
    verdicts = Verdicts(4, [CPU, MEMORY]).reject(np.array([True, True, True, False]), CPU)
    newer = Verdicts(2, [CPU, MEMORY]).reject(1, MEMORY)
    verdicts.splice(np.array([1, 3]), newer)
    assert told(verdicts) == [[CPU.text], [], [CPU.text], [MEMORY.text]]


def test_a_splice_translates_between_different_lists_of_reasons() -> None:
    verdicts = Verdicts(3).reject(0, CPU).reject(1, MEMORY).reject(2, TAINT)
    newer = Verdicts(2).reject(0, TAINT).reject(1, MEMORY).reject(1, CPU)
    verdicts.splice(np.array([0, 2]), newer)
    assert told(verdicts) == [[TAINT.text], [MEMORY.text], [CPU.text, MEMORY.text]]


def test_a_splice_may_bring_reasons_that_need_wider_bits() -> None:
    verdicts = Verdicts(2, reasons(8)).reject(0, reasons(8)[7])
    newer = Verdicts(1)
    for reason in reasons(10, "new"):
        newer.reject(0, reason)
    verdicts.splice(np.array([1]), newer)
    assert told(verdicts) == [["reason 7"], [f"new {i}" for i in range(10)]]


def test_a_splice_of_wider_bits_with_known_reasons_keeps_them() -> None:
    verdicts = Verdicts(2, reasons(20))
    newer = Verdicts(1, reasons(3)).reject(0, reasons(3)[2])
    verdicts.splice(np.array([1]), newer)
    assert told(verdicts) == [[], ["reason 2"]]


@pytest.mark.parametrize(
    ("refused_for", "code"),
    [
        ([CPU], Code.UNSCHEDULABLE),
        ([CPU, TAINT], Code.UNRESOLVABLE),
        ([TAINT, LATER], Code.UNRESOLVABLE),
        ([LATER, CPU], Code.PENDING),
        ([CPU, TAINT, BROKEN], Code.ERROR),
    ],
    ids=["curable", "one incurable", "incurable beats pending", "pending", "error beats all"],
)
def test_the_worst_reason_gives_a_row_its_code(refused_for: list[Reason], code: Code) -> None:
    assert worst(refused_for) is code


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.sets(st.sampled_from([CPU, MEMORY, TAINT])), min_size=5, max_size=5),
        max_size=3,
    ),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_rows_judged_at_once_are_refused_as_each_of_them_alone(
    answers: list[list[set[Reason]]], wanted: list[bool]
) -> None:
    verdicts = []
    for number, rows in enumerate(answers):
        answer = Verdicts(5)
        for row, why in enumerate(rows):
            for reason in sorted(why, key=lambda one: one.text):
                answer.reject(row, reason)
        verdicts.append((f"plugin {number}", answer))
    alone = {row: first_rejection(verdicts, row) for row in range(5) if wanted[row]}
    found = {
        row: status
        for rows, status in first_rejections(verdicts, np.array(wanted))
        for row in rows.tolist()
    }
    assert found == {row: status for row, status in alone.items() if status is not None}
