"""The page, in a headless Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, chromium
from programs import needs_program

from ptxkit.analyses.drawing import draw
from ptxkit.syntax import parse

KERNELS = Path(__file__).resolve().parents[3] / "fixtures" / "kernels"
pytestmark = [needs_program, pytest.mark.skipif(chromium() is None, reason="chromium and chromedriver are not there")]
SHOWN = "svg:not([hidden])"
ENTER, ESCAPE, SHIFT = "\ue007", "\ue00c", "\ue008"


def page_of(name: str, folder: Path, color: str = "none") -> Path:
    path = folder / f"{name}.html"
    draw(parse((KERNELS / f"{name}.sm_90a.ptx").read_text(), f"{name}.sm_90a.ptx"), color=color).save(path)
    return path


@pytest.fixture(scope="module")
def reduce(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of("reduce", tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(window: Browser, reduce: Path) -> Iterator[Browser]:
    window.open(reduce)
    yield window
    assert window.log() == []


def view(browser: Browser) -> list[float]:
    return [float(number) for number in browser.run(f"return document.querySelector('{SHOWN}').getAttribute('viewBox')").split()]


def marked(browser: Browser, kind: str) -> list[str]:
    """The text of the rows that have a mark."""
    script = """
        const marks = [...document.querySelectorAll(`${arguments[0]} .mark.${arguments[1]}`)];
        return marks.map(e => [...e.parentNode.querySelectorAll('text')].map(t => t.textContent).join('').trim());
    """
    found: list[str] = browser.run(script, SHOWN, kind)
    return found


def test_nothing_is_loaded_from_anywhere(reduce: Path) -> None:
    text = reduce.read_text()

    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)[^"']*["']|url\(|@import|https?://(?!www\.w3\.org/)""", text)
    assert "default-src 'none'" in text
    json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]


def test_a_click_on_a_register_shows_where_it_is_live(browser: Browser) -> None:
    browser.click(f"{SHOWN} .row text", "%r63")

    assert set(marked(browser, "def")) == {"mad.lo.s32 %r63, %r2, %r1, %r3", "add.s32 %r63, %r63, %r5"}
    assert set(marked(browser, "use")) == {
        "setp.ge.s32 %p1, %r63, %r18",
        "mul.wide.s32 %rd4, %r63, 4",
        "add.s32 %r63, %r63, %r5",
        "setp.lt.s32 %p2, %r63, %r18",
    }
    assert "mov.u32 %r21, %nctaid.x" in marked(browser, "live")
    assert "mov.u32 %r3, %tid.x" not in marked(browser, "live")
    assert set(browser.run("return [...document.querySelectorAll('.node.alive')].map(e => e.id)")) == {"f0b0", "f0b1", "f0b2"}
    assert "%r63" in browser.run("return document.querySelector('#panel h2').textContent")
    assert browser.run("return document.querySelectorAll('#panel button.at').length") == 6

    browser.keys(ESCAPE)

    assert marked(browser, "live") == []


def test_search_finds_and_steps(browser: Browser) -> None:
    browser.keys("/", *"SHFL")
    assert browser.run("return document.getElementById('hits').textContent") == "10 found"
    assert len(marked(browser, "hit")) == 10

    before = view(browser)
    browser.keys(ENTER)
    assert browser.run("return document.getElementById('hits').textContent") == "1 of 10"
    browser.keys(*[ENTER] * 6)
    assert browser.run("return document.getElementById('hits').textContent") == "7 of 10"
    assert len(marked(browser, "current")) == 1
    assert view(browser) != before


def test_search_of_a_register_takes_the_whole_name(browser: Browser) -> None:
    browser.keys("/", *"%r1")

    assert all(re.search(r"%r1\b", text) for text in marked(browser, "hit"))
    assert marked(browser, "hit")


def test_search_finds_what_is_folded_away(window: Browser, tmp_path: Path) -> None:
    body = "\n".join([f"add.s32 %r1, %r1, {i};" for i in range(1000, 1100)])
    path = tmp_path / "k.html"
    draw(parse(f".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {{ .reg .b32 %r<2>;\n{body}\nret; }}")).save(path)
    window.open(path)
    window.keys("/", *"1050", ENTER)

    (fold,) = marked(window, "current")
    assert re.fullmatch(r"… \d+ more", fold)
    assert "1050" in window.run("return document.querySelector('#panel li.hit').textContent")


def test_pan_and_zoom(browser: Browser) -> None:
    x, y, width, _ = view(browser)
    browser.drag([(120, 600), (220, 500), (320, 450)])
    moved = view(browser)
    assert moved[0] < x - 50 and moved[1] > y + 50 and moved[2] == width

    browser.wheel(400, 500, -300)
    assert view(browser)[2] < width
    browser.click("#fit")
    assert view(browser)[3] > 1000
    browser.click("#start")
    assert view(browser)[2] == pytest.approx(width)


def test_keys_do_everything(browser: Browser) -> None:
    start = view(browser)
    browser.keys("\ue015")
    assert view(browser)[1] > start[1]
    browser.keys("+")
    assert view(browser)[2] < start[2]
    browser.keys("n", "n")
    assert browser.run("return document.querySelector('#panel h2').textContent").strip() == "B1"
    browser.keys(ENTER)
    browser.keys("\ue004", "\ue004", "\ue004")
    assert browser.run("return document.activeElement.className").startswith("register")
    browser.keys(ENTER)
    assert marked(browser, "live")
    assert browser.run("return document.getElementById('spoken').textContent").startswith("%")


def test_a_click_on_a_block_lists_it(browser: Browser) -> None:
    browser.run("document.querySelector('#f0b2 text').dispatchEvent(new MouseEvent('click', {bubbles: true}))")

    assert browser.run("return document.querySelector('#panel h2').textContent") == "B2 $L__BB0_2"
    assert browser.run("return document.querySelectorAll('#panel li[data-instruction]').length") == 7
    browser.click("#panel .jump", "B1")
    assert browser.run("return document.querySelector('#panel h2').textContent").strip() == "B1"


def test_functions_are_chosen(browser: Browser) -> None:
    browser.run("const s = document.getElementById('function'); s.value = '2'; s.dispatchEvent(new Event('change'));")

    assert browser.run(f"return document.querySelector('{SHOWN} .node').id").startswith("f2")
    assert browser.run("return document.querySelectorAll('svg:not([hidden])').length") == 1


def test_light_and_dark(browser: Browser) -> None:
    script = f"""
        const letters = document.querySelector('{SHOWN} .node text');
        return [getComputedStyle(document.body).backgroundColor, getComputedStyle(letters).fill];
    """
    colors = []
    for _ in range(2):
        colors.append(browser.run(script))
        browser.click("#theme")

    assert all(one != other for one, other in zip(*colors, strict=True))
    assert {color for pair in colors for color in pair} >= {"rgb(254, 254, 254)", "rgb(20, 24, 29)"}


def test_text_stays_in_its_box(browser: Browser) -> None:
    script = f"""
        return [...document.querySelectorAll('{SHOWN} .node')].flatMap(node => {{
            const box = node.querySelector('polygon:last-of-type').getBoundingClientRect(), all = node.getBoundingClientRect();
            return [...node.querySelectorAll('text')].map(text => text.getBoundingClientRect().right - all.right);
        }}).filter(over => over > 1);
    """

    assert browser.run(script) == []


@pytest.mark.parametrize("name", ["control_flow", "wgmma_gemm", "cp_async"])
def test_other_pages_work(window: Browser, tmp_path: Path, name: str) -> None:
    window.open(page_of(name, tmp_path, "pressure"))
    first = f"{SHOWN} .row text[fill='var(--register)']"
    window.run("document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", first)

    assert marked(window, "live")
    assert window.log() == []
