"""Hypothesis profiles: SLACKWATER_PROFILE=laws runs the properties for long."""

from __future__ import annotations

import os

from hypothesis import settings

# A deadline per example would measure the machine, and the first call of anything that compiles.
# In CI the examples are the same on every run: a red build is about the change, not about luck.
settings.register_profile(
    "test", max_examples=100, deadline=None, derandomize=bool(os.environ.get("CI"))
)
settings.register_profile("laws", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("SLACKWATER_PROFILE", "test"))
