"""Pages in a browser: pictures of them at two widths and in both modes, what is cut off, what the console says, how long one takes to open.

    python benchmarks/pages.py DIR --out PICTURES [--every N]     all pages of a folder, or each Nth
    python benchmarks/pages.py FILE.html                          how long one takes to open, five times

Needs `pip install playwright` and Chromium (`--browser`, by default the one on the PATH). A page is cut off if it scrolls sideways, or
has text wider than its box that does not scroll. Times of opening are of the main thread, in CPU seconds, and by the clock.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTHS = (1280, 420)
MODES = ("light", "dark")
TALLEST = 3000
"""Pixels of a page that are in its picture."""
CUT_OFF = """() => {
  const wide = document.documentElement.scrollWidth - innerWidth;
  const found = wide > 1 ? [`the page scrolls sideways by ${wide} pixels`] : [];
  for (const one of document.querySelectorAll("article *, nav .md-nav__link .md-ellipsis")) {
    const style = getComputedStyle(one), room = one.clientWidth;
    if (room > 4 && one.scrollWidth > room + 2 && style.overflowX === "hidden" && style.display !== "inline")
      found.push(`${one.tagName.toLowerCase()} is cut off: ${one.textContent.trim().slice(0, 60)}`);
  }
  return found;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--out", type=Path, help="a folder for the pictures")
    parser.add_argument("--every", type=int, default=1, help="of the pages only each Nth")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    if options.path.is_dir():
        look(options.path, options.out, options.every, options.browser)
    else:
        opened(options.path, options.browser)


def look(folder: Path, out: Path | None, every: int, executable: str) -> None:
    pages = sorted(folder.rglob("*.html"))[::every]
    errors, cut = 0, 0
    with _served(folder) as address, _browser(executable) as browser:
        for mode in MODES:
            for width in WIDTHS:
                tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=mode)
                said: list[str] = []
                tab.on("console", lambda message, said=said: said.append(message.text) if message.type == "error" else None)
                tab.on("pageerror", lambda error, said=said: said.append(str(error)))
                for page in pages:
                    name = page.relative_to(folder)
                    said.clear()
                    tab.goto(f"{address}/{name}")
                    tab.wait_for_load_state("load")
                    wrong = tab.evaluate(CUT_OFF)
                    errors += len(said)
                    cut += len(wrong)
                    for line in (*said, *wrong):
                        print(f"{name} {width} {mode}: {line}")
                    if out is not None:
                        target = out / f"{str(name.with_suffix('')).replace('/', '.')}.{width}.{mode}.png"
                        target.parent.mkdir(parents=True, exist_ok=True)
                        height = min(TALLEST, tab.evaluate("document.documentElement.scrollHeight"))
                        tab.screenshot(path=str(target), full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
                tab.close()
    print(f"{len(pages)} pages, {len(WIDTHS)} widths, {len(MODES)} modes: {errors} console errors, {cut} cut off")


def opened(page: Path, executable: str) -> None:
    print(f"{page.name}: {page.stat().st_size / 1e6:.1f} MB")
    for _ in range(5):
        with _browser(executable) as browser:
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            said: list[str] = []
            tab.on("console", lambda message, said=said: said.append(message.text) if message.type == "error" else None)
            tab.on("pageerror", lambda error, said=said: said.append(str(error)))
            session = tab.context.new_cdp_session(tab)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            began = time.perf_counter()
            tab.goto(page.resolve().as_uri())
            # two frames: what stands in the window is painted
            tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            clock = time.perf_counter() - began
            spent = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
            parts = ", ".join(f"{name} {spent[key]:.2f}" for name, key in PARTS.items())
            print(f"  {spent['TaskDuration']:.2f} s ({parts}), {clock:.2f} s by the clock, {len(said)} console errors")


PARTS = {"script": "ScriptDuration", "layout": "LayoutDuration", "style": "RecalcStyleDuration"}


@contextmanager
def _browser(executable: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *message: object) -> None:
        pass


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


if __name__ == "__main__":
    main()
