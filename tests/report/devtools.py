"""Drive a browser over the DevTools protocol through two pipes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

import chromium

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # no sandbox: its user may be root
THROUGH_PIPES = 'exec "$0" "$@" 3<&"$IN" 4>&"$OUT"'


class Browser:
    """One tab. ``heard`` are the events since the last call."""

    def __enter__(self) -> Browser:
        self._home = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        home, folder = Path(self._home.name), chromium.installed()
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        pipes = {"IN": str(theirs_in), "OUT": str(theirs_out)}
        self._process = subprocess.Popen(
            ["bash", "-c", THROUGH_PIPES, str(folder / "chromium"), *FLAGS, f"--user-data-dir={home}", "about:blank"],
            env={**chromium.environment(folder, home), **pipes},
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number = b"", 0
        self._session: dict[str, str] = {}
        self.heard: deque[dict[str, Any]] = deque()
        self._attach()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._home.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        asked = {"id": number, "method": method, "params": parameters, **self._session}
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while (message := self._next()).get("id") != number:
            self.heard.append(message)
        assert "error" not in message, (method, message["error"])
        return message["result"]

    def open(self, page: Path) -> list[dict[str, Any]]:
        """Load a page, and return all events meanwhile."""
        self.heard.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not any(message.get("method") == "Page.loadEventFired" for message in self.heard):
            self.heard.append(self._next())
        self.ask("Runtime.evaluate", expression="document.fonts.ready", awaitPromise=True)
        return list(self.heard)

    def evaluate(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self, width: int, scheme: str = "light", media: str = "screen") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[feature])

    def _attach(self) -> None:
        (tab,) = [target for target in self.ask("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        attached = self.ask("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._in, 1 << 20)
            assert read, f"the browser is gone: exit code {self._process.poll()}"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer
