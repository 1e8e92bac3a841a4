"""Settings of the test run as a whole."""

from __future__ import annotations

import os
import pickle
from functools import cache
from typing import Any

import yaml
from hypothesis import HealthCheck, settings

# No deadline: a shared machine stalls, and a stall is no failure. In CI the examples are the same in every run.
_COMMON = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON)
settings.register_profile("ci", _COMMON, max_examples=60, derandomize=True, print_blob=True)
settings.register_profile("thorough", _COMMON, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

_PARSE = yaml.safe_load


@cache
def _parsed(text: str) -> bytes:
    return pickle.dumps(_PARSE(text))


def _parse_once(stream: Any) -> Any:
    """What `yaml.safe_load` gives, each time anew; a text that was parsed before is not parsed again.

    The settings of a proxy read each profile twice, which took 10 to 35 ms, and longer than most tests of a proxy do.
    """
    return pickle.loads(_parsed(stream)) if isinstance(stream, str) else _PARSE(stream)


yaml.safe_load = _parse_once
