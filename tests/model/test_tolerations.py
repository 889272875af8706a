"""When a toleration answers a taint."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.model.devices import DeviceTaint, DeviceToleration
from moorage.model.taints import Taint, Toleration, TolerationIndex, tolerated

TAINT = Taint(key="dedicated", value="gpu", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "answers"),
    [
        pytest.param(
            Toleration(key="dedicated", value="gpu", effect="NoSchedule"), True, id="same"
        ),
        pytest.param(Toleration(key="dedicated", value="gpu"), True, id="any effect"),
        pytest.param(
            Toleration(key="dedicated", value="gpu", effect="NoExecute"), False, id="other effect"
        ),
        pytest.param(Toleration(key="dedicated", value="cpu"), False, id="other value"),
        pytest.param(Toleration(key="dedicated"), False, id="no value"),
        pytest.param(Toleration(key="dedicated", operator="Exists"), True, id="Exists"),
        pytest.param(Toleration(operator="Exists"), True, id="every key"),
        pytest.param(Toleration(value="gpu"), True, id="Equal without a key"),
        pytest.param(Toleration(key="other", operator="Exists"), False, id="other key"),
        pytest.param(Toleration(key="dedicated", operator="Is", value="gpu"), False, id="unknown"),
        pytest.param(Toleration(key="dedicated", operator="Lt", value="9"), False, id="Lt is off"),
    ],
)
def test_a_toleration_answers_by_key_value_and_effect(
    toleration: Toleration, answers: bool
) -> None:
    assert toleration.tolerates(TAINT) is answers
    assert tolerated(TAINT, (toleration,), comparisons=False) is answers
    device_taint = DeviceTaint(key="dedicated", value="gpu", effect="NoSchedule")
    same = DeviceToleration(
        key=toleration.key,
        operator=toleration.operator,
        value=toleration.value,
        effect=toleration.effect,
    )
    assert same.tolerates(device_taint) is answers


@pytest.mark.parametrize(
    ("operator", "value", "taint_value", "answers"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "-5", "-6", True),
        ("Lt", "5", "5", False),
        ("Gt", "5", "+6", False),
        ("Gt", "05", "6", False),
        ("Lt", "5", "-0", False),
        ("Gt", "x", "6", False),
        ("Gt", "5", "9223372036854775808", False),
    ],
)
def test_comparisons_need_canonical_integers(
    operator: str, value: str, taint_value: str, answers: bool
) -> None:
    toleration = Toleration(key="slots", operator=operator, value=value)
    taint = Taint(key="slots", value=taint_value, effect="NoSchedule")
    assert toleration.tolerates(taint, comparisons=True) is answers
    assert not toleration.tolerates(taint)


def test_only_some_effects_keep_pods_out() -> None:
    kept = [e for e in ("NoSchedule", "PreferNoSchedule", "NoExecute") if Taint(effect=e).keeps_out]
    assert kept == ["NoSchedule", "NoExecute"]


EFFECTS = st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"])
KEYS = st.sampled_from(["", "a", "b"])
VALUES = st.sampled_from(["", "x", "-1", "0", "5", "05", "+5", "6", str(2**63)])
OPERATORS = st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "Is"])
TAINTS = st.builds(Taint, key=KEYS, value=VALUES, effect=EFFECTS)
TOLERATIONS = st.lists(
    st.builds(Toleration, key=KEYS, operator=OPERATORS, value=VALUES, effect=EFFECTS), max_size=6
)


@settings(max_examples=2_000)
@given(taint=TAINTS, tolerations=TOLERATIONS, comparisons=st.booleans())
def test_an_index_of_tolerations_answers_as_they_do(
    taint: Taint, tolerations: list[Toleration], comparisons: bool
) -> None:
    index = TolerationIndex(tolerations, comparisons=comparisons)
    expected = tolerated(taint, tolerations, comparisons=comparisons)
    assert index.tolerates(taint) is expected


def test_many_taints_meet_many_tolerations_without_being_compared_one_by_one() -> None:
    compared = 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    size = 2_000
    tolerations = [Toleration(key=Counted(f"k{i}"), operator="Exists") for i in range(size)]
    index = TolerationIndex(tolerations, comparisons=True)
    taints = [Taint(key=Counted(f"k{i}"), effect="NoSchedule") for i in range(size)]
    assert all(map(index.tolerates, taints))
    assert compared < 20 * size
