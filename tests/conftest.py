"""What tests of all folders share."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "support.again", "support.project"]

# How fast examples are drawn says how busy the machine is: files run side by side.
settings.register_profile("perfgate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("perfgate")

# A shell starts what it leaves in the background deaf to Ctrl-C, and all that it starts in turn: tests send one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
