"""How hard the property tests search: PPDSL_HYPOTHESIS_PROFILE names the profile."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("dev", max_examples=100, deadline=None, print_blob=True)
# A change is judged by the change, not by luck: the same examples each time. The nightly run looks for new ones.
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.register_profile("smoke", settings.get_profile("ci"), max_examples=10)
settings.register_profile("nightly", settings.get_profile("dev"), max_examples=20_000)
settings.load_profile(os.environ.get("PPDSL_HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
