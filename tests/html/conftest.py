"""A headless Chromium for the tests of this folder; where there is none they are skipped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from support.chromium import Browser, Tab

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
STARTS_WITHIN_S: Final = 120.0


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium without a network; what it leaves is removed."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name)) is not None), None)
    if program is None:
        pytest.skip("no Chromium: install one, on Debian by apt-get install -y chromium")
    pytest.importorskip(
        "websockets", reason="the websockets package is not installed: it is in the extra dev"
    )
    from support.chromium import Browser
    from websockets.sync.client import connect

    folder = tmp_path_factory.mktemp("chromium")
    command = [
        program,
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        "--no-first-run",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--force-color-profile=srgb",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        "about:blank",
    ]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        address = _address(process, folder / "DevToolsActivePort", log)
        with connect(address, max_size=None, compression=None) as socket:
            yield Browser(socket)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _address(process: subprocess.Popen[bytes], port: Path, log: Path) -> str:
    """Wait until Chromium says where it listens."""
    ends = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < ends and process.poll() is None:
        if port.is_file() and len(lines := port.read_text(encoding="ascii").split()) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise AssertionError(f"Chromium did not start: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    """An empty page; whatever a test did with it, it asked the network for nothing and complained
    of nothing."""
    opened = browser.tab()
    yield opened
    opened.assert_quiet()
    opened.send("Page.close")
