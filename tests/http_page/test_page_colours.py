"""The page's colours: readable by the measure of WCAG 2, in light and in dark."""

import re
from importlib.resources import files

import pytest

CSS = files("moorage.http").joinpath("page", "page.css").read_text()
TEXTS = ("text", "quiet", "link", "good", "bad", "warn")
MARKS = ("focus", *(f"series-{index}" for index in range(1, 9)))


def colours(selector: str) -> dict[str, str]:
    found = re.search(re.escape(selector) + r"\s*\{(.*?)\}", CSS, re.S)
    assert found
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", found.group(1)))


LIGHT = colours(":root")
DARK = colours(':root[data-shade="dark"]')


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_has_the_contrast_that_the_standard_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_both_themes_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "raised"])
def test_every_text_stands_out_from_its_ground(theme: dict[str, str], ground: str) -> None:
    found = {name: contrast(theme[name], theme[ground]) for name in TEXTS}
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_and_the_view_that_is_open_stand_out(theme: dict[str, str]) -> None:
    found = {name: contrast(theme[name], theme["ground"]) for name in MARKS}
    assert {name: ratio for name, ratio in found.items() if ratio < 3} == {}
    assert contrast(theme["ground"], theme["link"]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_scale_goes_one_way_in_lightness(theme: dict[str, str]) -> None:
    steps = [luminance(theme[f"scale-{index}"]) for index in range(1, 6)]
    assert steps == sorted(steps) or steps == sorted(steps, reverse=True)
