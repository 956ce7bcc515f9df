"""What tests of all folders share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# A gate in this process forgets what it has loaded (pytester), and NumPy's parts load once.
import scipy.special  # noqa: F401
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "support.again", "support.project"]

UNIT = Path(__file__).parent / "unit"

# How fast examples are drawn says how busy the machine is: files run side by side. A run draws what
# the last one drew, so that a failure is of the change that it is seen at; `pytest
# --hypothesis-profile=search` draws others.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "perfgate", settings.get_profile("search"), derandomize=True, database=None
)
settings.load_profile("perfgate")

# A shell starts what it leaves in the background deaf to Ctrl-C, and nohup to SIGHUP, and all that
# it starts in turn: tests send them.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

# A file that is written twice within a second, at the same length, would be loaded from the
# bytecode of the first.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the unit tests last: files run side by side end together where the last ones are
    short.
    """
    items.sort(key=lambda item: UNIT in item.path.parents)


OF_THE_CALLER = (
    "CI",
    "GITHUB_ACTIONS",
    "NO_COLOR",
    "FORCE_COLOR",
    "PYTEST_ADDOPTS",
    "PYTEST_DEBUG",
)


@pytest.fixture(scope="session", autouse=True)
def _as_at_a_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Gates of tests run as at a desk, wherever the tests run. Those that run side by side do not
    wait for one another: none of their times is compared."""
    with pytest.MonkeyPatch.context() as patch:
        for name in OF_THE_CALLER:
            patch.delenv(name, raising=False)
        patch.setenv("PERFGATE_LOCKS", str(tmp_path_factory.getbasetemp()))
        yield
