"""How explanations are laid out, and what of an object's values reaches the terminal."""

import contextlib
import io
import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.cli.explain_output import print_decision, print_decisions, print_node, print_pod
from moorage.cli.explain_tables import stacked_header
from moorage.cli.output import paragraph, print_json, print_yaml, shortened, table
from moorage.explain.listing import DecisionPage
from moorage.explain.report import (
    DecisionExplanation,
    DecisionSummary,
    Fix,
    Matrix,
    NodeExplanation,
    NodePod,
    NodeRefusal,
    NodeScores,
    NodeVerdicts,
    PodExplanation,
    Preemption,
    PreemptionCandidate,
    PreemptionNode,
    QueueState,
    Rejection,
    ScorePart,
    Verdict,
    Waker,
)
from moorage.printable import printable
from moorage.simulator.documents import parse_documents

EVIL = "a\x1b]0;pwned\x07\x9b2J\nb\u202e"
SPELLED = r"a\x1b]0;pwned\a\u009b2J\nb\u202e"

_PART = ScorePart(EVIL, 1, 2, 3, 6)
_VERDICT = Verdict(EVIL, "rejected", EVIL, (EVIL,))
_ROW = NodeVerdicts(EVIL, False, (_VERDICT,))
_FEASIBLE = NodeVerdicts(EVIL + "2", True, (Verdict(EVIL, "ok"),), 6, (_PART,))
_SCORES = (NodeScores(EVIL, 6, True, (_PART,)), NodeScores("b", 5, False, (_PART,)))
_DECISION = DecisionSummary(1, 1e9, EVIL, "unschedulable", EVIL, EVIL, message=EVIL)
_REJECTIONS = (Rejection(EVIL, EVIL, 5, (EVIL,), "PreFilter", EVIL),)

POD = PodExplanation(
    pod=EVIL,
    schedulable=False,
    nodes=2,
    feasible=1,
    message=EVIL,
    source="live",
    rejections=_REJECTIONS,
    scores=_SCORES,
    queue=QueueState(EVIL, 2, 1e9, 1e9, 9e9, (EVIL,), (EVIL,), EVIL, (Waker(EVIL, (EVIL,)),), EVIL),
    preemption=Preemption(
        True,
        EVIL,
        EVIL,
        (PreemptionCandidate(EVIL, (EVIL,), chosen=True),),
        (PreemptionNode(EVIL, 3, (EVIL,)),),
    ),
    fixes=(Fix(EVIL, EVIL, 1, True, examples=(EVIL,), victims=(EVIL + "x",)),),
    matrix=Matrix((EVIL,), (_ROW,), 2),
    asked=(_ROW, _FEASIBLE),
    decision=7,
)
NODE = NodeExplanation(
    node=EVIL,
    source="live",
    labels={EVIL: EVIL},
    taints=(EVIL,),
    allocatable={EVIL: EVIL},
    requested={EVIL: EVIL},
    pods=1,
    pod_list=(NodePod(EVIL, 1, {EVIL: EVIL}),),
    accepts=(EVIL,),
    refusals=(NodeRefusal(EVIL, (_VERDICT,)),),
    waiting=2,
)
DECISION = DecisionExplanation(_DECISION, EVIL, rejections=_REJECTIONS, scores=_SCORES)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("columns", ["60", "200"])
def test_values_of_objects_cannot_command_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wide: bool, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_pod(POD, wide=wide)
    print_node(NODE, wide=wide)
    print_decision(DECISION, wide=wide)
    print_decisions(DecisionPage((_DECISION,)), wide=wide)
    text = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in text)
    assert SPELLED in text


@pytest.mark.parametrize("told", [POD, NODE, DECISION])
def test_json_and_yaml_say_it_without_commanding(
    capsys: pytest.CaptureFixture[str], told: Any
) -> None:
    plain = msgspec.to_builtins(told)
    print_json(plain)
    text = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in text)
    assert json.loads(text) == json.loads(msgspec.json.encode(told))
    print_yaml(plain)
    text = capsys.readouterr().out
    assert not set("\x1b\x07\x9b").intersection(text)


@given(st.text() | st.from_regex(r"[-+]?[0-9._]{0,4}([eEoxb][-+]?[0-9_]{1,3})?", fullmatch=True))
@example("y")
@example("n")
@example("1e3")
@example("08")
@example("0o17")
@example("22:22")
@example("<<")
def test_yaml_means_the_same_to_readers_of_python_and_go(text: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_yaml({"value": text, "list": [text, 1, 1.5, 1e300, True, None]})
    assert yaml.safe_load(out.getvalue())["value"] == text
    (found,) = parse_documents(out.getvalue(), "out", is_json=False)
    assert found == {"value": text, "list": [text, 1, 1.5, 1e300, True, None]}
    assert [type(one) for one in found["list"]] == [str, int, float, float, bool, type(None)]


@given(st.text())
def test_json_for_terminals_reads_back(text: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_json([text])
    assert json.loads(out.getvalue()) == [text]
    assert all(char.isprintable() or char == "\n" for char in out.getvalue())
    assert printable(text).isprintable()


_CELL = st.text(alphabet="abc xyz-", max_size=40)


@given(
    st.lists(st.tuples(_CELL, _CELL, _CELL), min_size=1, max_size=5),
    st.integers(min_value=20, max_value=120),
)
def test_no_word_is_lost_however_narrow(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = table(["ONE", "TWO", "THREE"], rows, width=width)
    words = [word for row in rows for cell in row for word in cell.split()]
    # A long word may be broken at the end of a line; its letters are all there.
    shown = "".join("".join(lines).split())
    for word in words:
        assert len(word) > width - 8 or word in shown or set(word) <= set(shown)
    before = max(len(row[0]) for row in [("ONE",), *rows]) + max(
        len(row[1]) for row in [("", "TWO"), *rows]
    )
    # Only cells before the last one make a line longer than the terminal.
    assert all(len(line) <= max(width, before + 4 + len("THREE / ")) for line in lines)


def test_a_last_column_without_room_goes_below_its_row() -> None:
    lines = table(["A", "B", "C"], [["x" * 30, "y", "one two three four"]], width=40)
    assert lines == [
        f"A{' ' * 31}B / C",
        f"{'x' * 30}  y",
        "        one two three four",
    ]


def test_a_last_column_is_wrapped_under_itself() -> None:
    lines = table(["A", "B"], [["x", "one two three four five six seven"]], width=30)
    assert lines == ["A  B", "x  one two three four five six", "   seven"]


@pytest.mark.parametrize("moment", [1e300, -1e300, 1e12, float("inf"), float("nan")])
def test_a_time_that_no_calendar_has_is_printed_as_its_number(
    capsys: pytest.CaptureFixture[str], moment: float
) -> None:
    decision = msgspec.structs.replace(_DECISION, time=moment)
    print_decisions(DecisionPage((decision,)), wide=False)
    print_decision(DecisionExplanation(decision, "live"), wide=False)
    assert capsys.readouterr().out.count(str(moment)) == 2


@pytest.mark.parametrize(
    ("source", "waiting", "said"),
    [
        ("live", 2, " (the 1 most important was asked about)"),
        ("ledger", 1, ""),
    ],
)
def test_a_node_says_which_of_many_pods_it_was_asked_about(
    capsys: pytest.CaptureFixture[str], source: str, waiting: int, said: str
) -> None:
    print_node(NodeExplanation("n", source, accepts=("a",), waiting=waiting), wide=False)
    assert f" waiting pod{'s' * (waiting > 1)}{said} it could take 1." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("live", "Node n is cordoned (unschedulable) and has 1 pod; no pod waits."),
        (
            "ledger",
            "When the ledger ended, node n was cordoned (unschedulable) and had 1 pod; "
            "no pod waits.",
        ),
    ],
)
def test_a_node_of_a_ledger_is_told_of_in_the_past(
    capsys: pytest.CaptureFixture[str], source: str, sentence: str
) -> None:
    node = NodeExplanation("n", source, pods=1, pod_list=(NodePod("a/b"),), unschedulable=True)
    print_node(node, wide=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == sentence
    assert lines[3].split() == ["POD", "PRIORITY", "REQUESTS"]


def test_a_decision_that_is_not_made_again_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    one = DecisionSummary(1, 1e9, "a/b", "scheduled", "default-scheduler", node="n")
    print_decision(DecisionExplanation(one, "ledger", note="Asked again, it is m."), wide=False)
    assert capsys.readouterr().out.endswith("Asked again, it is m.\n")


@pytest.mark.parametrize("wide", [False, True])
def test_a_decision_tells_which_node_preemption_frees(
    capsys: pytest.CaptureFixture[str], wide: bool
) -> None:
    plain = DecisionSummary(1, 1e9, "a/b", "unschedulable", "default-scheduler", message="no room")
    freeing = msgspec.structs.replace(plain, number=2, nominated_node="quay")
    print_decision(DecisionExplanation(freeing, "ledger"), wide=wide)
    assert "preemption frees node quay for it" in capsys.readouterr().out
    print_decisions(DecisionPage((freeing, plain)), wide=wide)
    header, first, second = capsys.readouterr().out.splitlines()
    place = header.index("NOMINATED NODE")
    assert (first[place:].split()[0], second[place:].split()[0]) == ("quay", "0/0")


def test_a_plugin_above_its_scores_loses_no_character() -> None:
    assert stacked_header([("NodeCPUFit", 1), ("my-plugin.io/x", 20)]) == [
        ["", "", "Node", ""],
        ["", "", "CPU", ""],
        ["", "", "Fit", "my-plugin.io/x"],
        ["  NODE", "TOTAL", "x1", "x20"],
    ]


def test_few_names_stand_for_many() -> None:
    assert shortened(["a", "b", "c", "d"], 10) == "a, b, c and 7 more"
    assert shortened(["a", "b"], 2) == "a, b"
    assert shortened([], 0) == ""


def test_a_paragraph_keeps_to_the_width() -> None:
    assert paragraph("one two three", 8, hang="  ") == ["one two", "  three"]
    assert paragraph("one two three", None) == ["one two three"]
