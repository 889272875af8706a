"""How hard Hypothesis tries: the same examples every time by default, many more in `deep`."""

import os

from hypothesis import HealthCheck, Phase, settings

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
