"""Hypothesis tries as hard here as in tests/properties."""

import properties.conftest  # noqa: F401
