"""What tests of all folders share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "support.project"]

# How fast examples are drawn says how busy the machine is: files run side by side.
settings.register_profile("perfgate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("perfgate")
