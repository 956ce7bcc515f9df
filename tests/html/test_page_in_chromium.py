"""The page in a real browser: drawn, moved, sorted and read, with nothing asked of the network and
no complaint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from support import pages

from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData
from perfgate.render.html import page_html

if TYPE_CHECKING:
    from support.chromium import Browser, Tab

TIMELINE: Final = "#w-transformer figure[data-plot=timeline]"
SEEN: Final = "e => e.checkVisibility() && e.getClientRects().length > 0"
"""Whether an element is drawn."""

Write = Callable[[PageData], str]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Write a page and return its address."""
    folder = tmp_path_factory.mktemp("pages")
    number = iter(range(1000))

    def written(data: PageData) -> str:
        path = folder / f"{next(number)}.html"
        path.write_text(page_html(data), encoding="utf-8")
        return path.as_uri()

    return written


@pytest.fixture(scope="module")
def outcomes(write: Write) -> str:
    """The address of a page with every outcome."""
    return write(pages.every_outcome())


@pytest.fixture(scope="module")
def opened(browser: Browser, outcomes: str) -> Tab:
    """The page with every outcome, all plots of one workload drawn."""
    tab = browser.tab()
    tab.open(outcomes)
    for plot in ("intervals", "runs", "history", "timeline"):
        show(tab, f"#w-transformer figure[data-plot={plot}]")
    return tab


@pytest.fixture
def drawn(opened: Tab) -> Iterator[Tab]:
    """The same with the timeline in view, whole and in the system's colours again."""
    colours(opened, "")
    press(opened, TIMELINE, "Whole step")
    until_span(opened, lambda low, high: high - low > 12)
    show(opened, TIMELINE)
    yield opened
    opened.assert_quiet()


def colours(tab: Tab, chosen: str) -> None:
    """Choose light or dark, or neither."""
    tab.value(
        f"(t => "
        f"{{ t.value = '{chosen}'; t.dispatchEvent(new Event('change')); }})(document.querySelector('#theme'))"
    )


def show(tab: Tab, figure: str) -> None:
    """Bring a plot into view and wait until it is drawn."""
    selector = json.dumps(figure)
    tab.until(f"document.querySelector({selector}) !== null")
    tab.value(f"document.querySelector({selector}).scrollIntoView({{block: 'center'}})")
    tab.until(f"document.querySelector({selector}).dataset.drawn === 'yes'")
    tab.value(f"document.querySelector({selector}).scrollIntoView({{block: 'center'}})")


def span(tab: Tab) -> tuple[float, float]:
    """The part of the time axis that a timeline shows."""
    low, high = tab.value(
        f"document.querySelector({json.dumps(TIMELINE + ' .canvas')}).layout.xaxis.range.map(Number)"
    )
    return low, high


def until_span(tab: Tab, expected: Callable[[float, float], bool]) -> tuple[float, float]:
    ends = time.monotonic() + 10
    while not expected(*(shown := span(tab))):
        assert time.monotonic() < ends, shown
        time.sleep(0.02)
    return shown


def press(tab: Tab, figure: str, text: str) -> None:
    """Click a button of a figure by its text."""
    tab.value(
        f"[...document.querySelector({json.dumps(figure)}).querySelectorAll('button')]"
        f".find(b => b.textContent === {json.dumps(text)}).click()"
    )


def focused(tab: Tab) -> str:
    focus: str = tab.value("document.activeElement.outerHTML.slice(0, 200)")
    return focus


# Drawn, and only when looked at


def test_plots_are_drawn_when_they_come_into_view(tab: Tab, outcomes: str) -> None:
    tab.open(outcomes)
    assert tab.value("typeof Plotly") == "undefined"
    for plot in ("intervals", "runs", "timeline", "history"):
        show(tab, f"#w-transformer figure[data-plot={plot}]")
        assert (
            tab.value(
                f"document.querySelectorAll('#w-transformer [data-plot={plot}] "
                f"svg.main-svg').length"
            )
            > 0
        )
    assert tab.value("document.querySelectorAll('#w-mlp [data-drawn]').length") == 0
    bars = tab.value(
        f"[...document.querySelectorAll('{TIMELINE} .trace.bars')].map(t => "
        f"t.querySelectorAll('path').length)"
    )
    assert bars == [1, 3, 9, 9, 9, 9] * 2
    counted = tab.value(
        "[...document.querySelectorAll('#w-transformer [data-plot=runs] .points')].map(p => "
        "p.childElementCount)"
    )
    assert [points for points in counted if points] == [5, 3, 3]
    assert tab.asked_for() == {outcomes}


# The timeline is moved


def test_mouse_pans_by_dragging_and_zooms_by_the_wheel_with_control(drawn: Tab) -> None:
    tab = drawn
    press(tab, TIMELINE, "Zoom in")
    before = until_span(tab, lambda a, b: b - a < 7)
    x, y = tab.value(
        "(b => [b.x + b.width / 2, b.y + b.height / 2])"
        f"(document.querySelector('{TIMELINE} .nsewdrag').getBoundingClientRect())"
    )
    tab.mouse("mouseMoved", x, y)
    tab.mouse("mousePressed", x, y, button="left", clickCount=1)
    for moved in (20, 60, 100):
        tab.mouse("mouseMoved", x + moved, y, button="left", buttons=1)
    tab.mouse("mouseReleased", x + 100, y, button="left", clickCount=1)
    after = until_span(tab, lambda a, _: a < before[0] - 0.3)
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])
    tab.wheel(x, y, -120)
    closer = until_span(tab, lambda a, b: b - a < 0.9 * (after[1] - after[0]))
    assert closer[0] > after[0]
    assert closer[1] < after[1]


def test_pointer_over_a_bar_shows_its_name_length_and_count(drawn: Tab) -> None:
    tab = drawn
    # The sixth kernel of the baseline stands for three.
    x, y = tab.value(
        f"(b => [b.x + b.width / 2, b.y + b.height / 2])(document.querySelectorAll('{TIMELINE} "
        f".trace.bars')[2]"
        ".querySelectorAll('path')[5].getBoundingClientRect())"
    )
    tab.mouse("mouseMoved", x - 1, y)
    tab.mouse("mouseMoved", x, y)
    tab.until(f"document.querySelector('{TIMELINE} .hovertext') !== null")
    hover = tab.value(f"document.querySelector('{TIMELINE} .hovertext').textContent")
    bar = pages.step("", bars=40).lanes[2].bars[5]
    assert hover.startswith("void at::native::vectorized_elementwise_kernel<4, at::native::AddF")
    assert f"{bar.length_us:.4g} µs" in hover
    assert "the longest of 3 that lasted" in hover


def test_colours_change_and_the_zoom_stays(drawn: Tab) -> None:
    tab = drawn
    press(tab, TIMELINE, "Zoom in")
    zoomed = until_span(tab, lambda a, b: b - a < 7)
    before = tab.value(f"document.querySelector('{TIMELINE} .trace.bars path').style.fill")
    colours(tab, "dark")
    tab.until(
        f"document.querySelector('{TIMELINE} .trace.bars path').style.fill !== {json.dumps(before)}"
    )
    assert span(tab) == pytest.approx(zoomed)
    colours(tab, "")
    tab.until(
        f"document.querySelector('{TIMELINE} .trace.bars path').style.fill === {json.dumps(before)}"
    )


def test_metric_of_the_runs_can_be_chosen(drawn: Tab) -> None:
    runs = "#w-transformer figure[data-plot=runs]"
    tab = drawn
    show(tab, runs)
    assert (
        tab.value(f"document.querySelector('{runs} .xtitle').textContent")
        == "step_ms, a dot a run, | median"
    )
    tab.value(
        f"(s => "
        f"{{ s.value = 'kernel_ms'; s.dispatchEvent(new Event('change')); }})(document.querySelector('{runs} select'))"
    )
    tab.until(
        f"document.querySelector('{runs} .xtitle').textContent === 'kernel_ms, a dot a run, | "
        f"median'"
    )
    assert tab.value(f"document.querySelector('{runs} .canvas').data[0].x.length") == 5


# Tables and filter


def test_sorting_changes_the_order_of_rows_and_what_is_left_over_stays_below(drawn: Tab) -> None:
    tab = drawn
    tab.value(
        "window.it = [...document.querySelectorAll('#w-transformer table')]"
        ".find(t => t.caption.textContent.endsWith('a step, by kernel'))"
    )
    column = "[...it.tBodies[0].rows].map(r => r.cells[3].textContent)"
    assert tab.value(column) == ["+0.3000", "-0.1500", "+0.1000", "-0.0750", "+0.0600", "-0.0500"]
    tab.value("it.querySelectorAll('thead button')[3].click()")
    assert tab.value(column) == ["+0.3000", "+0.1000", "+0.0600", "-0.0500", "-0.0750", "-0.1500"]
    assert tab.value("it.querySelectorAll('thead th')[3].getAttribute('aria-sort')") == "descending"
    tab.value("it.querySelectorAll('thead button')[3].click()")
    assert tab.value(column) == ["-0.1500", "-0.0750", "-0.0500", "+0.0600", "+0.1000", "+0.3000"]
    tab.value("it.querySelectorAll('thead button')[1].click()")
    assert (
        tab.value("[...it.tBodies[0].rows].map(r => r.cells[1].textContent)")[-1] == ""
    )  # new: was not there before
    assert tab.value("[...it.querySelectorAll('[aria-sort]')].length") == 1
    assert tab.value("[...it.tFoot.rows].map(r => r.cells[0].textContent)") == [
        "(not accounted for)"
    ]


def test_filter_by_name_and_outcome(tab: Tab, outcomes: str) -> None:
    lines = "[...document.querySelectorAll('.overview tbody tr:not([hidden]) a')].map(a => a.textContent)"
    sections = (
        "[...document.querySelectorAll('details.workload')].filter(d => !d.hidden).map(d => d.id)"
    )
    tab.open(outcomes)
    assert tab.value("document.querySelector('#found').textContent") == "8 of 8 workloads shown"
    tab.click("#search")
    tab.type("TRANS")
    assert tab.value(lines) == ["transformer"]
    assert tab.value(sections) == ["w-transformer"]
    assert tab.value("document.querySelector('#found').textContent") == "1 of 8 workloads shown"
    tab.click('input[value="REGRESSED"]')
    assert tab.value(lines) == []
    tab.value("location.hash = '#w-mlp'")  # a link leads there whatever the filter hides
    tab.until("document.querySelector('#w-mlp').open && !document.querySelector('#w-mlp').hidden")
    assert tab.value("document.querySelector('#found').textContent") == "8 of 8 workloads shown"
    assert len(tab.value(lines)) == 8


def test_link_to_a_workload_opens_it(tab: Tab, outcomes: str) -> None:
    tab.open(f"{outcomes}#w-resnet18_input-pinned")
    tab.until("document.querySelector('#w-resnet18_input-pinned').open")
    tab.until("document.activeElement.localName === 'summary'")
    top = tab.value(
        "document.querySelector('#w-resnet18_input-pinned').getBoundingClientRect().top"
    )
    assert -5 <= top < 800


# The keyboard


def test_keyboard_reaches_everything_and_shows_where_it_is(tab: Tab, write: Write) -> None:
    tab.open(write(pages.page(pages.whole(), pages.unmeasured())))
    tab.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for plot in ("intervals", "runs", "timeline", "history"):
        show(tab, f"#w-transformer figure[data-plot={plot}]")
    tab.until("document.querySelectorAll('.scroll').length > 10")
    wanted = tab.value(
        "window.wanted = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]')]"
        f".filter({SEEN}); window.wanted.forEach((e, n) => {{ e.dataset.stop = n; }}); "
        f"window.wanted.length"
    )
    assert wanted > 60
    tab.value("scrollTo(0, 0); document.activeElement.blur()")
    reached: list[int] = []
    for _ in range(wanted + 5):
        tab.key("Tab")
        stop, outline = tab.value(
            "(e => [e.dataset.stop ?? '', e === document.body ? '' : "
            "getComputedStyle(e).outlineStyle"
            " + getComputedStyle(e).outlineWidth])(document.activeElement)"
        )
        if not stop:
            break
        assert outline == "solid3px", focused(tab)
        reached.append(int(stop))
    assert reached == list(range(wanted))


def test_keyboard_works_everything(tab: Tab, write: Write) -> None:
    tab.open(write(pages.page(pages.whole(), pages.whole("other", Outcome.PASSED))))
    tab.value("document.querySelector('input[name=outcome]').focus()")
    tab.key("Space")
    tab.until("document.querySelector('#w-transformer').hidden")
    tab.key("Space")
    tab.until("!document.querySelector('#w-transformer').hidden")
    tab.value("document.querySelector('#w-other > summary').focus()")
    tab.key("Enter")
    tab.until("document.querySelector('#w-other').open")
    tab.value("document.querySelector('.overview thead th:nth-child(2) button').focus()")
    tab.key("Enter")
    assert tab.value(
        "[...document.querySelectorAll('.overview tbody a')].map(a => a.textContent)"
    ) == [
        "other",
        "transformer",
    ]
    show(tab, TIMELINE)
    tab.value(f"document.querySelector('{TIMELINE} .stage').focus()")
    _, high = span(tab)
    tab.key("+")
    until_span(tab, lambda a, b: b - a == pytest.approx(high / 2))
    tab.key("ArrowRight")
    until_span(tab, lambda a, _: a > 0.3 * high)
    tab.key("ArrowLeft")
    until_span(tab, lambda a, _: a == pytest.approx(high / 4))
    tab.key("-")
    until_span(tab, lambda a, b: b - a == pytest.approx(high))
    tab.key("0")
    until_span(tab, lambda a, b: b - a == pytest.approx(high))


def test_command_is_copied(tab: Tab, outcomes: str) -> None:
    tab.open(outcomes)
    tab.value("navigator.clipboard.writeText = async text => { window.copied = text; }")
    tab.value("document.querySelector('#w-transformer button.copy').focus()")
    tab.key("Enter")
    tab.until("document.querySelector('#w-transformer button.copy').textContent === 'Copied'")
    assert tab.value("window.copied") == "pytest --perfgate workloads/transformer.py"


# Light and dark, wide and narrow

CONTRASTS: Final = """
(() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = rgb => {
    const [r, g, b] = rgb.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(e).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.checkVisibility()) continue;
    if (e.closest('script, style, noscript, option')) continue;
    const style = getComputedStyle(e);
    const front = numbers(e.closest('svg') ? style.fill : style.color).slice(0, 3);
    const [a, b] = [luminance(front), luminance(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), key = `${style.color} on ${ground(e)}`;
    const inBar = e.closest('.bars') !== null;
    if (!inBar) found[key] = Math.min(found[key] ?? 99, ratio);
  }
  return found;
})()
"""


def test_text_has_contrast_in_light_and_dark(tab: Tab, outcomes: str) -> None:
    tab.open(outcomes)
    tab.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    show(tab, "#w-transformer figure[data-plot=intervals]")
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        for chosen in ("", "light", "dark"):
            colours(tab, chosen)
            found = tab.value(CONTRASTS)
            assert len(found) >= 6
            assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}, (
                scheme,
                chosen,
            )
            is_dark = (chosen or scheme) == "dark"
            assert any("on 16,20,24" in pair for pair in found) == is_dark
            assert any("on 255,255,255" in pair for pair in found) != is_dark
    colours(tab, "")


@pytest.mark.parametrize("width", [320, 390])
def test_phone_never_scrolls_the_page_sideways(tab: Tab, write: Write, width: int) -> None:
    named = pages.whole("a_rather_long_name_without_any_space_" * 4)
    tab.size(width, 780, phone=True)
    tab.open(write(pages.page(named, pages.unmeasured("x" * 300))))
    tab.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for plot in ("intervals", "runs", "timeline", "history"):
        show(tab, f"figure[data-plot={plot}]")
    assert tab.value("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    wide = tab.value(
        f"[...document.querySelectorAll('body *')].filter({SEEN}).filter(e => "
        f"!e.closest('.scroll, svg, .canvas'))"
        f".filter(e => e.getBoundingClientRect().right > {width} + 0.5).map(e => "
        f"e.outerHTML.slice(0, 120))"
    )
    assert wide == []
    boxes = f"[...document.querySelectorAll('.scroll')].filter({SEEN})"
    assert tab.value(f"{boxes}.filter(e => e.scrollWidth > e.clientWidth + 1).length") == 0


# What is hostile, absent or large


HOSTILE: Final = (
    "<script>window.hit = 1</script>",
    "</script><script>window.hit = 1</script>",
    '<a href="javascript:window.hit=1">here</a>',
    "<b>bold</b><br>&lt;i&gt;",
    "<img src=x onerror='window.hit=1'>",
    "abc\u202egnp.exe",
    "\U0001f525 \U0001f680",
    "%{y} $x^2$",
    "n" * 10_000,
)


def test_hostile_names_do_nothing_and_can_be_read(tab: Tab, write: Write) -> None:
    tab.open(write(pages.page(*(pages.named(text) for text in HOSTILE))))
    identities = tab.value("[...document.querySelectorAll('details.workload')].map(d => d.id)")
    assert len(identities) == len(HOSTILE)
    for identity, text in zip(identities, HOSTILE, strict=True):
        timeline = f"#{identity} figure[data-plot=timeline]"
        show(tab, timeline)
        tab.value(
            f"Plotly.Fx.hover(document.querySelector('{timeline} .canvas'), "
            f"[{{curveNumber: 0, pointNumber: 0}}])"
        )
        tab.until(f"document.querySelector('{timeline} .hovertext') !== null")
        shown = text.replace("\u202e", "\\u202e") if len(text) < 100 else "nnn...nnn"
        assert shown in tab.value(f"document.querySelector('#{identity} h3').textContent")
        drawn = tab.value(f"document.querySelector('{timeline} .hovertext').textContent").replace(
            "\xa0", " "
        )
        assert shown[:60].replace("nnn...", "nnn") in drawn
        show(tab, f"#{identity} figure[data-plot=history]")
    assert tab.value("window.hit ?? null") is None
    assert (
        tab.value(
            "document.querySelectorAll('a[href^=javascript], details a, main b, main i, main "
            "img').length"
        )
        == 0
    )
    ticks = tab.value(
        f"[...document.querySelectorAll('#{identities[3]} [data-plot=timeline] .ytick "
        f"text')].map(t => t.textContent)"
    )
    assert "<b>bold</b><br>&lt;i&gt;" in ticks


def test_script_that_is_not_the_pages_own_does_not_run(tab: Tab, outcomes: str) -> None:
    tab.open(outcomes)
    tab.value(
        "document.head.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.hit = 1'}))"
    )
    tab.value(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 1\">')"
    )
    tab.value("fetch('https://example.org/').catch(error => { window.refused = String(error); })")
    tab.until("window.refused !== undefined")
    assert tab.value("window.hit ?? null") is None
    assert "Content Security Policy" in " ".join(tab.problems)
    tab.problems.clear()  # they are this test's own
    tab.requests.clear()


def test_browser_that_cannot_draw_says_so_and_keeps_the_tables(tab: Tab, outcomes: str) -> None:
    tab.open(outcomes)
    tab.value("delete window.DecompressionStream")
    tab.value("document.querySelector('#w-transformer figure[data-plot=runs]').scrollIntoView()")
    tab.until("document.querySelector('#w-transformer [data-plot=runs] .trouble') !== null")
    assert "the table holds its numbers" in tab.value(
        "document.querySelector('.trouble').textContent"
    )
    assert tab.value("document.querySelectorAll('#w-transformer table').length") > 10
    assert "DecompressionStream" in " ".join(tab.problems)
    tab.problems.clear()


@pytest.mark.parametrize(
    "data", [pages.page(), pages.page(pages.unmeasured())], ids=["empty", "unmeasured"]
)
def test_page_without_numbers_works(tab: Tab, write: Write, data: PageData) -> None:
    tab.open(write(data))
    assert "GATE SHUT" in tab.value("document.querySelector('.gate').textContent")
    assert tab.value("document.querySelectorAll('figure').length") == 0
    if data.workloads:
        assert "step 3" in tab.value("document.querySelector('#w-hung .reason').innerText")
        tab.click("#search")
        tab.type("nothing")
        assert tab.value("document.querySelector('#w-hung').hidden")


LOADS_WITHIN_S: Final = 2.0
MOST_BYTES: Final = 10_000_000


def test_hundred_workloads_open_quickly(
    tab: Tab, write: Write, record_property: Callable[[str, object], None]
) -> None:
    address = write(pages.hundred(bars=2000))
    size = Path(address.removeprefix("file://")).stat().st_size
    assert size < MOST_BYTES
    took: list[dict[str, Any]] = []
    for _ in range(3):  # other work on the machine can only make it slower
        tab.open(address)
        tab.until("performance.getEntriesByType('paint').length === 2")
        took.append(
            tab.value(
                "({load: performance.getEntriesByType('navigation')[0].loadEventEnd / 1000,"
                " content: performance.getEntriesByName('first-contentful-paint')[0].startTime "
                "/ 1000})"
            )
        )
        if took[-1]["load"] < LOADS_WITHIN_S:
            break
    record_property("seconds", took)
    record_property("bytes", size)
    assert min(one["load"] for one in took) < LOADS_WITHIN_S
    assert min(one["content"] for one in took) < LOADS_WITHIN_S
    assert tab.value("document.querySelectorAll('details.workload').length") == 100
    figure = tab.value(
        "document.querySelector('details[open] figure[data-plot=timeline]').dataset.of"
    )
    show(tab, f"#{figure} figure[data-plot=timeline]")
    drawn = tab.value(
        f"document.querySelectorAll('#{figure} [data-plot=timeline] .trace.bars path').length"
    )
    assert drawn == 2 * pages.step("", bars=2000).drawn
    assert drawn > 3900
