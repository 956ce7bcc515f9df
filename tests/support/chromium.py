"""A headless Chromium, driven by the DevTools protocol: what a page shows, asks for and complains
of."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from websockets.sync.client import ClientConnection

WAITS_S: Final = 20.0
"""For an answer, or for a page to come to be as it should."""
KEYS: Final[Mapping[str, tuple[str, int, str]]] = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Space": ("Space", 32, " "),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "+": ("Equal", 187, "+"),
    "-": ("Minus", 189, "-"),
    "0": ("Digit0", 48, "0"),
}
"""By name: the code, the virtual key and the text of a key."""


class Tab:
    """One page in the browser, with what it asked the network for and what it complained of."""

    def __init__(self, browser: Browser, session: str) -> None:
        """Take the session that the browser gave the page; listen to all that it has to say."""
        self._browser = browser
        self._session = session
        self._opened: set[str] = set()
        self.requests: list[str] = []
        """Addresses asked for; of the page itself, too."""
        self.problems: list[str] = []
        """Errors and warnings of the console, exceptions, and what a policy refused."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Give a command and return its result."""
        return self._browser.send(method, session=self._session, **parameters)

    def hear(self, method: str, shown: Mapping[str, Any]) -> None:
        """Take note of an event."""
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(shown["request"]["url"])
            case "Runtime.consoleAPICalled" if shown["type"] in ("error", "warning", "assert"):
                self.problems.append(
                    f"console: {[a.get('value', a.get('description')) for a in shown['args']]}"
                )
            case "Runtime.exceptionThrown":
                self.problems.append(f"exception: {json.dumps(shown['exceptionDetails'])[:1000]}")
            case "Log.entryAdded" if shown["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"log: {shown['entry']['text'][:500]}")

    def open(self, address: str) -> None:
        """Load a page and wait for its load event."""
        self._opened.add(address.partition("#")[0])
        self.send("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, script: str) -> Any:  # noqa: ANN401 - whatever JSON the expression comes to
        """Return what an expression comes to, a promise's outcome included."""
        shown = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in shown:
            raise AssertionError(f"{script}: {json.dumps(shown['exceptionDetails'])[:1000]}")
        return shown["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        ends = time.monotonic() + WAITS_S
        while not self.value(script):
            if time.monotonic() > ends:
                raise AssertionError(
                    f"not so after {WAITS_S:g} s: {script}\n" + "\n".join(self.problems)
                )
            time.sleep(0.02)

    def key(self, name: str) -> None:
        """Press a key and let it go."""
        code, virtual, text = KEYS[name]
        shown = {"key": text if text.strip() else name.replace("Space", " "), "code": code}
        down = {"text": text} if text else {}
        self.send(
            "Input.dispatchKeyEvent",
            type="keyDown" if text else "rawKeyDown",
            windowsVirtualKeyCode=virtual,
            **shown,
            **down,
        )
        self.send(
            "Input.dispatchKeyEvent",
            type="keyUp",
            windowsVirtualKeyCode=virtual,
            **shown,
        )

    def wheel(self, x: float, y: float, turned: float) -> None:
        """Turn the wheel at a point of the window, the control key held."""
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=turned, modifiers=2)

    def type(self, text: str) -> None:
        """Put a text in where the focus is."""
        self.send("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click in the middle of the first element that a selector finds, scrolled into view."""
        found = json.dumps(selector)
        at = self.value(
            f"(() => {{ const e = document.querySelector({found}); "
            f"e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return "
            "[b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.mouse("mouseMoved", *at)
        self.mouse("mousePressed", *at, button="left", clickCount=1)
        self.mouse("mouseReleased", *at, button="left", clickCount=1)

    def mouse(self, what: str, x: float, y: float, **more: object) -> None:
        """Move, press or release the mouse at a point of the window, CSS pixels."""
        self.send("Input.dispatchMouseEvent", type=what, x=x, y=y, **more)

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Give the window a size in CSS pixels; a phone has two device pixels to each and a finger
        for a mouse."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def scheme(self, name: str) -> None:
        """Prefer `light` or `dark`."""
        self.send(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def assert_quiet(self) -> None:
        """Fail if the page asked for anything but itself, or complained."""
        self.value("1")  # what is still under way is heard
        assert self.problems == []
        assert self.asked_for() <= self._opened

    def asked_for(self) -> set[str]:
        """Return the addresses asked for, without fragments; what an address itself holds is asked
        of nobody."""
        return {one.partition("#")[0] for one in self.requests if not one.startswith("data:")}


class Browser:
    """One Chromium and the socket to it."""

    def __init__(self, socket: ClientConnection) -> None:
        """Take a socket to the browser's own DevTools address; it takes answers of any size."""
        self._socket = socket
        self._numbers = itertools.count(1)
        self._tabs: dict[str, Tab] = {}

    def send(
        self, method: str, *, session: str | None = None, **parameters: object
    ) -> dict[str, Any]:
        """Give a command, hear the events that come before its result, and return that."""
        number = next(self._numbers)
        command: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        self._socket.send(json.dumps(command))
        while True:
            shown = json.loads(self._socket.recv(timeout=WAITS_S))
            if shown.get("id") == number:
                if "error" in shown:
                    raise AssertionError(f"{method}: {shown['error']}")
                return dict(shown["result"])
            tab = self._tabs.get(shown.get("sessionId", ""))
            if tab is not None and "method" in shown:
                tab.hear(shown["method"], shown["params"])

    def tab(self) -> Tab:
        """Open an empty page of 1280 x 900."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        tab.size(1280, 900)
        return tab
