"""Lines about pods: written only where their level is, with references for objects."""

import io
import json
from collections.abc import Iterator

import pytest

from moorage import log_lines
from moorage.app.logs import LoggingOptions, Logs, configure_logging, reset_logging
from moorage.engine.hint_lines import log_hint, texts_of_hints
from moorage.log_fields import Line, V
from moorage.testing.builders import make_node, make_pod


class Unwritable:
    """A value that must not become text."""

    def __str__(self) -> str:
        raise AssertionError("nobody reads this")

    __repr__ = __str__


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    yield io.StringIO()
    reset_logging()


def logging_at(verbosity: int, written: io.StringIO, form: str = "text") -> Logs:
    return configure_logging(LoggingOptions(form, verbosity=verbosity), stderr=written)


def said(written: io.StringIO) -> str:
    """The lines without their heads."""
    return "".join(f"{line.partition('] ')[2]}\n" for line in written.getvalue().splitlines())


def test_a_line_is_written_from_its_verbosity_on(written: io.StringIO) -> None:
    line = Line(V(3), "Something happened", "pod", "node")
    logging_at(2, written)
    assert not line
    line(Unwritable(), Unwritable())
    assert written.getvalue() == ""
    logging_at(3, written)
    assert line
    line(make_pod("web", namespace="shop"), make_node("n1"))
    assert said(written) == '"Something happened" pod="shop/web" node="n1"\n'


def test_it_names_the_file_that_calls_it(written: io.StringIO) -> None:
    logging_at(0, written)
    log_lines.POD_GONE(make_pod("web"), "gone")
    assert " test_log_lines.py:" in written.getvalue()


def test_vmodule_raises_the_verbosity_for_the_file_that_calls(written: io.StringIO) -> None:
    options = LoggingOptions(vmodule=(("test_log_*", 5),))
    configure_logging(options, stderr=written)
    log_lines.MOVED("pod", make_pod("web"), "NodeAdd", "Active")
    assert 'queue="Active"' in written.getvalue()


def test_fields_at_the_end_may_be_left_out_and_sets_are_gos(written: io.StringIO) -> None:
    logging_at(5, written)
    pod = make_pod("web")
    log_lines.UPDATING_CONDITION(pod, "PodScheduled", "False", "Unschedulable")
    log_lines.CHECKING_EVENTS(pod, {"NodePorts", "NodeAffinity"}, 1, 1)
    first, second = said(written).splitlines()
    assert first.endswith('conditionReason="Unschedulable"')
    assert 'unschedulablePlugins={"NodeAffinity":{},"NodePorts":{}}' in second


def test_the_name_of_who_writes_comes_from_v4_on_and_always_with_unhandled_errors(
    written: io.StringIO,
) -> None:
    pod = make_pod("web")
    logging_at(3, written)
    log_lines.WILL_NOT_HELP(pod)
    log_lines.ATTEMPT_FAILED("no", pod)
    logging_at(4, written)
    log_lines.WILL_NOT_HELP(pod)
    lines = said(written).splitlines()
    assert ["logger=" in line for line in lines] == [False, True, True]
    assert lines[1] == (
        '"Error scheduling pod; retrying" err="no" logger="UnhandledError" pod="default/web"'
    )


def test_json_has_the_same_fields(written: io.StringIO) -> None:
    logging_at(2, written, "json")
    log_lines.BOUND(make_pod("web"), "n1", 5, 3)
    line = json.loads(written.getvalue())
    del line["ts"], line["caller"]
    assert line == {
        "msg": "Successfully bound pod to node",
        "v": 2,
        "pod": {"name": "web", "namespace": "default"},
        "node": "n1",
        "evaluatedNodes": 5,
        "feasibleNodes": 3,
    }


@pytest.mark.parametrize(
    ("plugin", "old", "new", "answer", "if_new", "text"),
    [
        ("TaintToleration", "node", "node", True, True, "this may make the Pod rejected"),
        ("NodeAffinity", "node", "node", False, True, "hasn't changed"),
        ("NodeAffinity", "node", "node", False, False, "NodeAffinity doesn't match"),
        ("NodeResourcesFit", "placed", None, True, False, "another scheduled pod was deleted"),
        ("NodePorts", "pending", None, False, False, "the deleted pod is unscheduled"),
        ("InterPodAffinity", "own", "own", True, False, "the target pod labels have changed"),
        ("Unknown", "node", "node", True, True, ""),
    ],
)
def test_what_a_hint_says_follows_from_change_and_answer(
    plugin: str,
    old: str,
    new: str | None,
    answer: bool,
    if_new: bool,
    text: str,
    written: io.StringIO,
) -> None:
    pod = make_pod("web", uid="1")
    objects = {
        "node": make_node("n1"),
        "placed": make_pod("other", uid="2").on_node("n1"),
        "pending": make_pod("other", uid="2"),
        "own": pod,
    }
    logging_at(5, written)
    log_hint(plugin, pod, objects[old], objects[new] if new else None, answer, lambda: if_new)
    assert text in said(written)
    assert bool(text) == bool(written.getvalue())


def test_all_that_hints_say_can_be_read() -> None:
    assert len(texts_of_hints()) > 40
