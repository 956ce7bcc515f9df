"""What a page shows is whole, legible and to scale, on a phone and on a wide screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import pages
from support.timelines import Call, Op, Range, build

from perfgate.metrics.stepview import step_view, typical_step
from perfgate.model.note import quoted
from perfgate.model.pagedata import PageData, StepView
from perfgate.render.html import page_html

if TYPE_CHECKING:
    from support.chromium import Tab

pytestmark = pytest.mark.behaviour

TIMELINE = "#w-transformer figure[data-plot=timeline]"
PERIOD_NS = 3_260_000
COVERED = """JSON.stringify([...document.querySelectorAll('.overview tbody tr, .workload > summary')].filter(row => {
  const badge = row.querySelector('.badge').getBoundingClientRect();
  const name = (row.querySelector('a') ?? row.querySelector('h3')).getBoundingClientRect();
  const apart = badge.right <= name.left + 1 || badge.left >= name.right;
  return !apart && badge.bottom > name.top + 1 && badge.top < name.bottom - 1;
}).map(row => row.textContent))"""
CUT_OFF = """JSON.stringify([...document.querySelectorAll('.scroll')]
  .filter(box => box.scrollWidth > box.clientWidth + 1)
  .map(box => box.textContent.slice(0, 60)))"""


def opened(tab: Tab, data: PageData, folder: Path) -> None:
    page = folder / "page.html"
    page.write_text(page_html(data), encoding="utf-8")
    tab.open(page.as_uri())


def far_ahead() -> StepView:
    """A step of a loop whose CPU is done with all steps before the GPU has done the first few."""
    kernels = [
        Op(
            start=PERIOD_NS * n + 500_000,
            end=PERIOD_NS * (n + 1) + 400_000,
            name="gemm",
            correlation=n + 1,
        )
        for n in range(12)
    ]
    timeline = build(
        ranges=[Range(start=100_000 * n, end=100_000 * n + 90_000) for n in range(12)],
        calls=[
            Call(start=100_000 * n + 50_000, end=100_000 * n + 55_000, correlation=n + 1)
            for n in range(12)
        ],
        kernels=kernels,
    )
    place = typical_step(timeline, step="step")
    return step_view(place, label=quoted("step 6"))


@pytest.mark.parametrize("width", [390, 600, 800, 1280, 1920])
def test_no_badge_lies_over_a_name(tab: Tab, tmp_path: Path, width: int) -> None:
    tab.size(width, 900, phone=width < 500)
    opened(tab, pages.every_outcome(), tmp_path)
    assert json.loads(tab.value(COVERED)) == []


@pytest.mark.parametrize("width", [320, 390])
def test_no_table_is_cut_off_on_a_phone(tab: Tab, tmp_path: Path, width: int) -> None:
    tab.size(width, 900, phone=True)
    opened(tab, pages.every_outcome(), tmp_path)
    tab.value("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    tab.until(
        "[...document.querySelectorAll('#w-transformer td')].every(cell => cell.dataset.is !== "
        "undefined)"
    )
    assert json.loads(tab.value(CUT_OFF)) == []


def test_no_loss_is_drawn_as_if_it_had_passed(tab: Tab, tmp_path: Path) -> None:
    workload = pages.whole()
    rows = tuple(row.model_copy(update={"outcome": None}) for row in workload.verdict.metrics)
    verdict = workload.verdict.model_copy(update={"metrics": rows})
    opened(tab, pages.page(workload.model_copy(update={"verdict": verdict})), tmp_path)
    tab.value(
        "document.querySelector('figure[data-plot=intervals]').scrollIntoView({block: 'center'})"
    )
    tab.until("document.querySelector('figure[data-plot=intervals]').dataset.drawn === 'yes'")
    marker = "document.querySelector('figure[data-plot=intervals] .canvas').data[1].marker"
    good = tab.value("getComputedStyle(document.documentElement).getPropertyValue('--good').trim()")
    assert good
    assert good not in tab.value(f"[].concat({marker}.color)")


def test_a_step_is_drawn_as_long_as_it_takes(tab: Tab, tmp_path: Path) -> None:
    view = far_ahead()
    plain = pages.whole().model_copy(update={"baseline_step": None, "candidate_step": view})
    opened(tab, pages.page(plain), tmp_path)
    tab.until(f"document.querySelector('{TIMELINE}') !== null")
    tab.value(f"document.querySelector('{TIMELINE}').scrollIntoView({{block: 'center'}})")
    tab.until(f"document.querySelector('{TIMELINE}').dataset.drawn === 'yes'")
    low, high = tab.value(
        f"document.querySelector('{TIMELINE} .canvas').layout.xaxis.range.map(Number)"
    )
    assert (low, pytest.approx(PERIOD_NS / 1e6, rel=0.02)) == (0, high)
    assert not tab.value(
        f"document.querySelector('{TIMELINE} figcaption').textContent.includes('baseline')"
    )
