"""The help and the usage, compared with those of the real kube-scheduler v1.37.1."""

import pytest

from app.recorded import recorded_text
from moorage.app.flag_table import MOORAGE, SECTIONS
from moorage.app.flags import help_text, usage_text
from moorage.app.options import EarlyExit, parse_options

UPSTREAM = tuple(section for section in SECTIONS if section is not MOORAGE)


@pytest.mark.parametrize(("columns", "name"), [(0, "help.txt"), (80, "help-80.txt")])
def test_cli_012_the_help_is_upstreams(columns: int, name: str) -> None:
    assert help_text(UPSTREAM, columns) == recorded_text(name)


def test_flags_of_moorage_follow_in_a_section_of_their_own() -> None:
    found = parse_options(["--help"])
    assert isinstance(found, EarlyExit)
    assert (found.code, found.stderr) == (0, "")
    text = recorded_text("help.txt")
    assert found.stdout.startswith(text)
    added = found.stdout.removeprefix(text)
    assert added.startswith("\nMoorage flags:\n\n      --config-from-configmap string ")
    assert "--watch-config" in added


def test_cli_003_usage_comes_before_the_sentence_about_a_wrong_flag() -> None:
    found = parse_options(["--nosuch"])
    assert isinstance(found, EarlyExit)
    assert (found.code, found.stdout) == (1, "")
    assert found.stderr == f"{usage_text(SECTIONS)}\nError: unknown flag: --nosuch\n"
    assert found.stderr.startswith("Usage:\n  kube-scheduler [flags]\n\nMisc flags:\n\n")


@pytest.mark.parametrize("columns", [20, 30, 45, 60, 100, 200])
def test_no_word_is_lost_when_lines_are_wrapped(columns: int) -> None:
    assert help_text(SECTIONS, columns).split() == help_text(SECTIONS).split()
