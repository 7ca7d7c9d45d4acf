"""Hypothesis profiles: SLACKWATER_PROFILE=laws runs the properties for long."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A deadline per example would measure the machine, and the first call of anything that compiles; so does
# the check that examples are drawn fast enough. In CI the examples are the same on every run: a red
# build is about the change, not about luck.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", _UNHURRIED, max_examples=100, derandomize=bool(os.environ.get("CI")))
settings.register_profile("laws", _UNHURRIED, max_examples=2000)
settings.load_profile(os.environ.get("SLACKWATER_PROFILE", "test"))
