"""A real Chromium without a window, spoken to over a pair of pipes in the words of its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE: Final = 60.0
"""Seconds after which a browser that does not do what it should is given up."""
_PAUSE: Final = 0.05
"""Seconds between two looks at the page."""
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_WITH_PIPES: Final = (
    "import os, sys\n"
    "to, back = (os.dup(int(number)) for number in sys.argv[1:3])\n"
    "os.dup2(to, 13), os.dup2(back, 14), os.dup2(13, 3), os.dup2(14, 4)\n"
    "os.execv(sys.argv[3], sys.argv[3:])"
)
"""Becomes the browser, which reads from descriptor 3 and writes to 4."""


def find_chromium() -> str | None:
    """The browser's program, if there is one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. What its console says, and what its policy refuses, is in `complaints`."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser = browser
        self._context = context
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """The result of *method*."""
        return self._browser.call(method, params, self._session)

    def open(self, url: str) -> None:
        """Go to *url*, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.wait_for(
            f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url.split('#', maxsplit=1)[0])})"
        )

    def run(self, script: str) -> Any:
        """The value of *script* in the page, awaited where it is a promise. AssertionError where it throws."""
        # The tests' own scripts are no scripts of the page: its policy is not asked.
        given = {
            "expression": script,
            "returnByValue": True,
            "awaitPromise": True,
            "allowUnsafeEvalBlockedByCSP": False,
        }
        done = self.call("Runtime.evaluate", **given)
        assert "exceptionDetails" not in done, f"{script}: {done['exceptionDetails']}"
        return done["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Return as soon as *script* is true; AssertionError with the page's text where it never is."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                if self.run(f"!!({script})"):
                    return
            except (AssertionError, RuntimeError):
                pass  # the page is about to be another
            time.sleep(_PAUSE)
        raise AssertionError(f"never true: {script}\n{self.run('document.body.innerText')}")

    def text(self, selector: str) -> str:
        """What is to be read at *selector*."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def fill(self, selector: str, value: str) -> None:
        """Write *value* into a field."""
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def click(self, selector: str) -> None:
        """Click at *selector*, as a script does."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str) -> None:
        """Press a key of the keyboard."""
        codes = {"Tab": 9, "Enter": 13}
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **text)

    def look(self, width: int, height: int, scheme: str = "light", *, calm: bool = False) -> None:
        """Be a window of this size, on a system with this colour scheme. *calm*: and with reduced motion."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        motion = "reduce" if calm else "no-preference"
        features = [
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion},
        ]  # fmt: skip
        self.call("Emulation.setEmulatedMedia", features=features)

    def shoot(self, path: Path, *, whole: bool = False) -> None:
        """A picture of the page, as PNG."""
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(done["data"]))

    def close(self) -> None:
        """Close the tab, and forget its cookies."""
        self._browser.call("Target.disposeBrowserContext", {"browserContextId": self._context})

    @property
    def complaints(self) -> list[str]:
        """Errors, warnings and refusals of the browser so far; of failed requests only those it could not make."""
        found = []
        for event in self._browser.events(self._session):
            params = event["params"]
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(f"{params['entry']['source']}: {params['entry']['text']} {params['entry'].get('url', '')}")
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
        return found

    @property
    def requested(self) -> set[str]:
        """The URLs that were asked for."""
        events = self._browser.events(self._session)
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return {params["request"]["url"] for params in sent}


class Browser:
    """The program, as the protocol shows it."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process = process
        self._to = to
        self._reader = os.fdopen(back, "rb")
        self._number = 0
        self._answers: dict[int, Any] = {}
        self._events: list[Any] = []
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def call(self, method: str, params: dict[str, Any], session: str | None = None) -> Any:
        """The result of *method*, in the tab of *session*."""
        with self._news:
            self._number += 1
            number = self._number
        asked = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        data = json.dumps(asked).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        with self._news:
            assert self._news.wait_for(lambda: number in self._answers, PATIENCE), f"no answer to {method}"
            answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def events(self, session: str) -> list[Any]:
        """What the tab has told so far."""
        with self._news:
            return [event for event in self._events if event.get("sessionId") == session]

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._to)
        self._thread.join(PATIENCE)
        self._reader.close()

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._reader.fileno(), 1 << 16):
            *texts, rest = (rest + data).split(b"\0")
            with self._news:
                for text in texts:
                    said = json.loads(text)
                    if "id" in said:
                        self._answers[said["id"]] = said
                    else:
                        self._events.append(said)
                self._news.notify_all()


@contextmanager
def chromium(program: str, folder: Path) -> Iterator[Browser]:
    """The browser, with a profile of its own in *folder*."""
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    words = [
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
        *(f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", _WITH_PIPES, str(read_in), str(write_out), program, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(read_in, write_out),
        env={**os.environ, "HOME": str(folder)},
        start_new_session=True,
    )
    os.close(read_in)
    os.close(write_out)
    browser = Browser(process, write_in, read_out)
    try:
        yield browser
    finally:
        browser.close()


def new_page(browser: Browser) -> Page:
    """A new tab, with cookies of its own."""
    context = browser.call("Target.createBrowserContext", {})["browserContextId"]
    target = browser.call("Target.createTarget", {"url": "about:blank", "browserContextId": context})["targetId"]
    session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
    return Page(browser, session, context)
