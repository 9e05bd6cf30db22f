"""A headless Chromium, driven through the WebDriver protocol with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def chromium() -> tuple[str, str] | None:
    """The programs chromium and chromedriver, or None where one is missing."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """A browser with one window, to be used in a `with`."""

    def __init__(self, width: int = 1400, height: int = 950, dark: bool = False) -> None:
        found = chromium()
        assert found is not None
        self._folder = tempfile.mkdtemp()
        self._process = subprocess.Popen([found[1], "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        port = next(match[1] for line in self._process.stdout if (match := re.search(r"started successfully on port (\d+)", line)))
        self._url = f"http://127.0.0.1:{port}"
        flags = [*FLAGS, f"--user-data-dir={self._folder}", f"--window-size={width},{height}", *(["--force-dark-mode"] if dark else [])]
        options = {"binary": found[0], "args": flags}
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self._url += f"/session/{self._call('POST', '/session', {'capabilities': capabilities})['sessionId']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._process.terminate()
            self._process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path: Path) -> None:
        self._call("POST", "/url", {"url": path.resolve().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str, text: str | None = None) -> None:
        """A click of the mouse on the middle of the first element that a selector finds (with this text)."""
        box = self.run(
            "const e = [...document.querySelectorAll(arguments[0])].find(e => arguments[1] === null || e.textContent === arguments[1]);"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2];",
            selector,
            text,
        )
        self.drag([(box[0], box[1])])

    def drag(self, points: list[tuple[float, float]]) -> None:
        """The mouse pressed at the first point, moved along the others, and let go."""
        moves = [{"type": "pointerMove", "duration": 20, "x": round(x), "y": round(y)} for x, y in points]
        actions = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        self._call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def wheel(self, x: float, y: float, by: int) -> None:
        turn = {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": by, "duration": 0}
        self._call("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [turn]}]})

    def keys(self, *keys: str) -> None:
        """Keys pressed one after another, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def log(self) -> list[str]:
        """What the page complained of."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))
