"""Pages in a browser: screenshots at two widths and in both modes, what is cut off or pale, console errors, how long one takes to open.

    python benchmarks/pages.py DIR... --out PICTURES [--every N]  all pages and drawings, or every Nth
    python benchmarks/pages.py DIR... --out PICTURES --only rules,verify  those of whose paths one of these is a part
    python benchmarks/pages.py --make DIR                         what the commands draw and write, to be looked at: pages, SVGs, reprs
    python benchmarks/pages.py FILE.html                          how long one takes to open, five times

Needs `pip install playwright` and Chromium (`--browser`, by default the one on the PATH). A page is cut off if it scrolls sideways, or has
text wider than its box that does not scroll. Text is pale if its contrast with what is behind it is below 3 to 1. Times of opening are of
the main thread, in CPU seconds, and by the clock.
"""

from __future__ import annotations

import argparse
import functools
import html
import http.server
import itertools
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIDTHS = (1440, 390)
MODES = ("light", "dark")
TALLEST = 6000
"""Pixels of a page that are in one screenshot; a page that is taller has several."""
READY = """() => !document.querySelector("[role=status]")?.textContent.endsWith("…")"""
WRONG = """() => {
  const wide = document.documentElement.scrollWidth - innerWidth;
  const found = wide > 1 ? [["cut off", `the page scrolls sideways by ${wide} pixels`]] : [];
  for (const one of document.querySelectorAll("article *, nav .md-nav__link .md-ellipsis")) {
    const style = getComputedStyle(one), room = one.clientWidth;
    if (room > 4 && one.scrollWidth > room + 2 && style.overflowX === "hidden" && style.display !== "inline")
      found.push(["cut off", `${one.tagName.toLowerCase()}: ${one.textContent.trim().slice(0, 60)}`]);
  }
  // colours as the browser computes them: rgb(1, 2, 3), rgba(1, 2, 3, 0.5), color(srgb 0.1 0.2 0.3 / 0.5)
  const colour = text => {
    const numbers = (text.match(/-?[\\d.]+(e-?\\d+)?/g) || []).map(Number), scale = text.startsWith("color") ? 255 : 1;
    return [...numbers.slice(0, 3).map(one => one * scale), numbers[3] ?? 1];
  };
  const over = (front, back) => front.slice(0, 3).map((one, at) => one * front[3] + back[at] * (1 - front[3]));
  const behind = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(colour(getComputedStyle(at).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
    const page = dark && matchMedia("(prefers-color-scheme: dark)").matches;
    return layers.reverse().reduce((back, front) => over(front, back), page ? [18, 18, 18] : [255, 255, 255]);
  };
  const light = rgb => {
    const [red, green, blue] = rgb.map(one => one / 255).map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const seen = new Set();
  for (const element of document.body.querySelectorAll("*")) {
    const text = [...element.childNodes].filter(one => one.nodeType === 3).map(one => one.data.trim()).join(" ").trim();
    if (!text || element.closest("svg, script, style, [hidden], [aria-hidden=true], [disabled], .headerlink")) continue;
    if (!element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || box.right < 0 || box.bottom < 0) continue;
    const style = getComputedStyle(element), back = behind(element), front = over(colour(style.color), back);
    const [dim, bright] = [light(front), light(back)].sort((one, other) => one - other), ratio = (bright + 0.05) / (dim + 0.05);
    const key = `${style.color} ${back}`;
    if (ratio >= 3 || seen.has(key)) continue;
    seen.add(key);
    found.push(["pale", `${element.tagName.toLowerCase()}.${element.className}, ${ratio.toFixed(1)} to 1: ${text.slice(0, 60)}`]);
  }
  return found;
}"""
ROW = "fixtures/tutorials/row_max.sm_90a.ptx -k row_max"
MADE = (
    f"view {ROW} --run -o {{}}/view.html",
    "view fixtures/source/apply.sm_90a.ptx -o {}/view.templates.html",
    "view fixtures/profiling/scale.ptx --heat fixtures/profiling/launch.toml -o {}/view.heat.html",
    "view fixtures/kernels/wgmma_gemm.sm_90a.ptx --no-graph -o {}/view.large.html",
    *[f"cfg {ROW} --color {what} -o {{}}/cfg.{what}.svg" for what in ("none", "liveness", "pressure", "divergence", "loops")],
    *[f"cfg {ROW} --color {what} -o {{}}/cfg.{what}.html" for what in ("liveness", "divergence")],
    "cfg fixtures/profiling/scale.ptx --heat fixtures/profiling/launch.toml -o {}/cfg.heat.svg",
    "cfg fixtures/profiling/scale.ptx --heat fixtures/profiling/launch.toml -o {}/cfg.heat.html",
    "cfg fixtures/kernels/control_flow.sm_90a.ptx --level instructions -k early_exit -o {}/cfg.instructions.svg",
    "cfg fixtures/kernels/control_flow.sm_90a.ptx -o {}/cfg.several.html",
    "callgraph fixtures/kernels/control_flow.sm_90a.ptx -o {}/callgraph.svg",
    "pipeline fixtures/kernels/cp_async.sm_90a.ptx --format svg > {}/pipeline.svg",
    "litmus fixtures/litmus/message-passing.litmus --draw {}/litmus.svg",
    "litmus fixtures/litmus/message-passing.litmus --draw {}/litmus.html",
    "tokens fixtures/profiling/scale.ptx --format html > {}/tokens.html",
    "tokens fixtures/profiling/scale.ptx --format html --dark > {}/tokens.dark.html",
)  # fmt: skip
"""What a user's commands make that a browser shows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--make", type=Path, metavar="DIR", help="write there what the commands draw")
    parser.add_argument("--out", type=Path, help="a folder for the screenshots")
    parser.add_argument("--every", type=int, default=1, help="of the pages only every Nth")
    parser.add_argument("--only", default="", help="only pages with one of these in their path")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    if options.make is not None:
        make(options.make)
    folders = [path for path in options.paths if path.is_dir()]
    if folders:
        look(folders, options.out, options.every, options.only.split(","), options.browser)
    for page in options.paths:
        if page.is_file():
            opened(page, options.browser)


def make(folder: Path) -> None:
    """Runs the commands, and writes what a notebook shows of a module, of its graphs and of its findings into one page."""
    import ptxkit

    folder.mkdir(parents=True, exist_ok=True)
    for words in MADE:
        command = f"{sys.executable} -m ptxkit {words.format(shlex.quote(str(folder.resolve())))}"
        subprocess.run(command, shell=True, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    found = ptxkit.lint((ROOT / "fixtures/tutorials/row_max.sm_90a.ptx").read_text())
    module = ptxkit.parse((ROOT / "fixtures/profiling/scale.ptx").read_text())
    kernel = module.kernels[0]
    shown = [module, kernel, found, *found, ptxkit.cfg(kernel), ptxkit.draw(kernel), ptxkit.liveness(kernel), ptxkit.uniformity(kernel)]
    parts = [f"<h2>{type(one).__name__}</h2><div>{_in_notebook(one)}</div>" for one in shown]
    head = '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><style>div { overflow-x: auto; }</style>'
    (folder / "notebook.html").write_text(head + "".join(parts))


def _in_notebook(thing: Any) -> str:
    for name in ("_repr_html_", "_repr_svg_"):
        if hasattr(thing, name):
            return str(getattr(thing, name)())
    if hasattr(thing, "_repr_mimebundle_"):
        return str(thing._repr_mimebundle_().get("image/svg+xml", ""))
    return f"<pre>{html.escape(repr(thing))}</pre>"


def look(folders: list[Path], out: Path | None, every: int, only: list[str], executable: str) -> None:
    count, told = 0, {"error": 0, "cut off": 0, "pale": 0}
    for folder in folders:
        drawn = [path for path in folder.rglob("*") if path.suffix in (".html", ".svg") and "assets" not in path.parts]
        pages = sorted(path for path in drawn if any(part in str(path.relative_to(folder)) for part in only))[::every]
        count += len(pages)
        with _served(folder) as address, _browser(executable) as browser:
            for mode, width in itertools.product(MODES, WIDTHS):
                tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=mode)
                said: list[tuple[str, str]] = []
                tab.on("console", lambda message, said=said: said.append(("error", message.text)) if message.type == "error" else None)
                tab.on("pageerror", lambda error, said=said: said.append(("error", str(error))))
                for page in pages:
                    name = page.relative_to(folder)
                    said.clear()
                    tab.goto(f"{address}/{name}{'?shown' if page.suffix == '.svg' else ''}", wait_until="load")
                    tab.wait_for_function(READY, timeout=120_000)
                    for kind, text in (*said, *tab.evaluate(WRONG)):
                        told[kind] += 1
                        print(f"{name} {width} {mode}: {kind}: {text}")
                    picture = f"{str(name.with_suffix('')).replace('/', '.')}{page.suffix}.{width}.{mode}"
                    if out is not None:
                        _shoot(tab, width, out / folder.name / f"{picture}.png")
                    for other in tab.query_selector_all("[role=tab]")[1:]:
                        other.click()
                        tab.wait_for_timeout(3000)
                        for kind, text in tab.evaluate(WRONG):
                            told[kind] += 1
                            print(f"{name} {width} {mode}: {kind}: {text}")
                        if out is not None:
                            _shoot(tab, width, out / folder.name / f"{picture}.{other.get_attribute('id')}.png")
                tab.close()
    wrong = f"{told['error']} console errors, {told['cut off']} cut off, {told['pale']} pale"
    print(f"{count} pages, {len(WIDTHS)} widths, {len(MODES)} modes: {wrong}")


def _shoot(tab: Any, width: int, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    height = tab.evaluate("document.documentElement.scrollHeight")
    for top in range(0, height, TALLEST):
        path = target.with_suffix(f".{top // TALLEST + 1}.png") if top else target
        clip = {"x": 0, "y": top, "width": width, "height": min(TALLEST, height - top)}
        tab.screenshot(path=str(path), full_page=True, clip=clip)


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
    def do_GET(self) -> None:
        """A file; and a drawing within a page, as Chromium takes no whole screenshot of an SVG alone."""
        drawing, _, shown = self.path.partition("?")
        if not shown:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f'<!doctype html><link rel="icon" href="data:,"><img src="{drawing}" alt="" style="max-width: 100%">'.encode())

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
