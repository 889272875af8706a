"""Templates of scheduler_perf: the part of Go's templating that they use."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import Write
from moorage.benchmarks.perf.go_template import GoTemplate
from moorage.benchmarks.perf.templates import Template
from moorage.errors import InputError

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: boat-{{.Index}}-of-{{ .Count }}
  labels: {Berth: "{{ Mod .Index 12 }}"}
spec:
  containers: [{name: hold, resources: {requests: {memory: '{{ DivideInt 30000 .Count }}Mi'}}}]
"""


def test_numbers_are_put_in(write: Write) -> None:
    made = Template(Path(write("pod.yaml", POD))).make(14, 40)
    assert made["metadata"] == {"name": "boat-14-of-40", "labels": {"Berth": "2"}}
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"memory": "750Mi"}


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("AddInt .Index 2 3", 12),
        ("SubtractInt .Index 2", 5),
        ("MultiplyInt .Index 2 2", 28),
        ("DivideInt .Index 2", 3),
        ("DivideFloat .Index 2", 3.5),
        ("AddFloat .Index 0.5", 7.5),
        ("MultiplyFloat .Index 0.5", 3.5),
        ("SubtractFloat .Index 0.5", 6.5),
        ("Mod .Index 4", 3),
        ("Mod .Index .few", 1),
        ("AddInt 8000 (Mod .Index (DivideInt .Count .few))", 8001),
        ("or .missing 5", 5),
        ("or .few 5", 3),
        ("(or .missing nil) | JSON", None),
        (".list | JSON", [{"a": 1}]),
        ("AddInt .text 1", 5),
        (".text | Int", 4),
    ],
)
def test_every_function_is_there(write: Write, action: str, value: object) -> None:
    path = write("any.yaml", f"kind: Any\nvalue: {{{{{action}}}}}\n")
    params = {"few": 3, "text": "4", "list": [{"a": 1}]}
    assert Template(Path(path)).make(7, 9, params)["value"] == value


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{if .yes}}a{{else}}b{{end}}", "a"),
        ("{{if .no}}a{{else}}b{{end}}", "b"),
        ("{{if .no}}a{{end}}c", "c"),
        ('{{if eq .word "deep"}}a{{end}}', "a"),
        ("{{range .yes}}<{{.}}>{{end}}", "<0><1>"),
        ("{{range $i := .list}}{{$i}},{{end}}", "x,y,"),
        ("{{range .no}}a{{else}}none{{end}}", "none"),
        ("{{$n := or .no 2}}{{range $i := $n}}{{if ge $i 1}}{{$i}}of{{$n}}{{end}}{{end}}", "1of2"),
        ("a {{- .word -}} b{{/* not shown */}}", "adeepb"),
        ("{{DivideFloat 4 2}} {{DivideFloat 1 2}}", "2 0.5"),
    ],
)
def test_branches_loops_and_variables(text: str, rendered: str) -> None:
    values = {"yes": 2, "no": 0, "word": "deep", "list": ["x", "y"]}
    assert GoTemplate(text, "here").render(values) == rendered


@given(index=st.integers(0, 10**6), divisor=st.integers(1, 10**4))
def test_division_and_remainder_belong_together(
    tmp_path_factory: pytest.TempPathFactory, index: int, divisor: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "pair.yaml"
    path.write_text(
        f"whole: {{{{DivideInt .Index {divisor}}}}}\nrest: {{{{Mod .Index {divisor}}}}}"
    )
    made = Template(path).make(index)
    assert made["whole"] * divisor + made["rest"] == index


def test_fields_are_spelt_as_the_api_spells_them_but_labels_stay(write: Write) -> None:
    text = "Kind: Pod\nSpec: {NodeSelector: {Colour: Red}}\nmetadata: {labels: {Up: Down}}\n"
    made = Template(Path(write("pod.yaml", text))).make()
    assert made == {
        "kind": "Pod",
        "spec": {"nodeSelector": {"Colour": "Red"}},
        "metadata": {"labels": {"Up": "Down"}},
    }


def test_what_was_made_is_free_to_be_changed(write: Write) -> None:
    template = Template(Path(write("pod.yaml", "kind: Pod\nmetadata: {labels: {}}\n")))
    template.make()["metadata"]["labels"]["changed"] = "yes"
    assert template.make()["metadata"]["labels"] == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: {{.Name}}\n", "{{.Name}}: has no value"),
        ("kind: {{if .Name}}\n", "{{if .Name}}: has no end"),
        ("kind: {{end}}\n", "{{end}}: not understood"),
        ("kind: {{$no}}\n", "{{$no}}: not understood"),
        ("kind: {{(AddInt 1 2}}\n", "{{(AddInt 1 2}}: not understood"),
        ("kind: {{.Index.Deep}}\n", "{{.Index.Deep}}: not understood"),
        ("kind: {{Sink .Index}}\n", "{{Sink .Index}}: not understood"),
        ("kind: {{DivideInt 1 .Index}}\n", "division by zero"),
        ("- a\n- b\n", "expected one object"),
    ],
)
def test_what_cannot_be_rendered_is_said_with_the_file(
    write: Write, text: str, complaint: str
) -> None:
    path = Path(write("odd.yaml", text))
    with pytest.raises(InputError) as error:
        Template(path).make(0, 1)
    assert str(path) in str(error.value)
    assert complaint in str(error.value)
