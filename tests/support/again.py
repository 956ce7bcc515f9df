"""Runs a test on a real nsys again where nsys itself broke down in it, and says so; fails as ever
where it did not.

On a busy machine nsys 2024.2 loses its agent now and then, whatever perfgate does. A gate tries
such a run again, and says so; a test that compares words or counts runs then sees others. So
only a failure whose own report or captured output shows the breakdown is tried again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

TRIES: Final = 3
PROPERTY: Final = "nsys_broke_down"
"""Name of the JUnit property of a test that was tried again."""
BROKEN: Final = re.compile(
    r".*(?:nsys \S+ itself (?:failed|broke down)|NsysCrashed|nsys-(?:crashed|hung)|Connection "
    r"to Agent lost|Local Endpoint is not available|-try-[23]\b"
    r"|could not import its recording:? \(?(?:Importation failed|An unknown error)"
    r"|nsys (?:\S+ )?did not end within \S+ s, though the workload had ended).*"
)
"""The line in which perfgate, or nsys, says that nsys broke down."""
RAISED: Final = re.compile(r"^E .*", re.MULTILINE)
"""What was raised, in a report that shows the source as well."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Try a test marked `nsys` again, and report the last try alone."""
    if item.get_closest_marker("nsys") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for number in range(1, TRIES + 1):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        seen = next(
            (found for report in reports if report.failed and (found := _breakdown(report))), None
        )
        if seen is None or number == TRIES:
            break
        # What a fixture of the file has kept of the breakdown goes too.
        item.session._setupstate.teardown_exact(None)
        item.user_properties.append((PROPERTY, seen))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _breakdown(report: pytest.TestReport) -> str | None:
    """What a failed test's report, or its output, says of nsys breaking down."""
    found = BROKEN.search("\n".join([*RAISED.findall(report.longreprtext), *_printed(report)]))
    return None if found is None else found[0].removeprefix("E ").strip()


def _printed(report: pytest.TestReport) -> Iterator[str]:
    return (text for _, text in report.sections)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that were tried again."""
    every = (report for reports in terminalreporter.stats.values() for report in reports)
    shown = {
        f"TRIED AGAIN {report.nodeid}: {seen}"
        for report in every
        if isinstance(report, pytest.TestReport)
        for name, seen in report.user_properties
        if name == PROPERTY
    }
    for line in sorted(shown):
        terminalreporter.write_line(line)
