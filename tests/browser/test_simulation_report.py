"""The report of a simulation: it opens from a file, with all its plots, and asks nobody."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenPage
from moorage.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "scenario.yaml"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert main(["simulate", str(EXAMPLE), "--report", str(path)]) == 0
    return path.as_uri()


@pytest.mark.parametrize("dark", [False, True])
def test_every_plot_is_drawn_in_light_and_dark(
    report: str, open_page: OpenPage, *, dark: bool
) -> None:
    page = open_page(report, dark=dark)
    for name in ("course", "measure", "waste"):
        expect(page.locator(f"#{name}-plot")).to_have_attribute("data-drawn", "true")
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shade == ("rgb(17, 22, 29)" if dark else "rgb(255, 255, 255)")


def test_another_measure_is_drawn_when_it_is_chosen(report: str, open_page: OpenPage) -> None:
    page = open_page(report)
    page.get_by_label("Measure").first.select_option("pods pending")
    expect(page.locator("#course-plot")).to_contain_text("pods pending")
    page.get_by_label("Measure").nth(1).select_option("makespan, s")
    expect(page.locator("#measure-plot")).to_contain_text("makespan, s")
