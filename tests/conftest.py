"""What tests of all folders share."""

from __future__ import annotations

pytest_plugins = ["pytester", "support.project"]
