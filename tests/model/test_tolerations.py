"""When a toleration answers a taint."""

import pytest

from moorage.model.devices import DeviceTaint, DeviceToleration
from moorage.model.taints import Taint, Toleration, tolerated

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
