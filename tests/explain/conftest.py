"""Hypothesis tries as hard as for the other properties."""

import properties.conftest  # noqa: F401  # registers and loads the profiles
