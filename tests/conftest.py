"""Settings of the test run as a whole."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: a shared machine stalls, and a stall is no failure. In CI the examples are the same in every run.
_COMMON = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON)
settings.register_profile("ci", _COMMON, derandomize=True, print_blob=True)
settings.register_profile("thorough", _COMMON, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))
