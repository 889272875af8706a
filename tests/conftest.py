"""How hard Hypothesis tries: the same examples every time by default, many more in `deep`.

And what `caplog` shows: fields, too.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from moorage.app.logs import TextFormatter

_COMMON = settings(
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.target, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

settings.register_profile("default", _COMMON, derandomize=True)
settings.register_profile("deep", _COMMON, derandomize=False, print_blob=True)
settings.register_profile("unshrunk", _COMMON, derandomize=True, phases=[Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Records as the scheduler prints them."""
    caplog.handler.setFormatter(TextFormatter())
    return caplog
