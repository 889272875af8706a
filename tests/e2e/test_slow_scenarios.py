"""Scenarios that take minutes run beside all the others; both schedulers must show the same."""

import pytest

from e2e.background import Background
from e2e.scenarios.gangs import SLOW_SCENARIOS
from e2e.trial import Scenario, label


@pytest.mark.parametrize("scenario", [pytest.param(one, id=label(one)) for one in SLOW_SCENARIOS])
def test_both_schedulers_show_the_same_after_minutes(
    scenario: Scenario, in_background: Background
) -> None:
    peer = in_background[scenario, "peer"].result()
    assert in_background[scenario, "subject"].result() == peer
