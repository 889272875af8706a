"""Whatever objects say, commands print it without letting it command the terminal."""

import ast
import json
from pathlib import Path

import pytest
import yaml

import moorage.cli
from moorage.cli.output import fail, print_json, print_line, print_table, print_yaml, say, warn

EVIL = "a\x1b]0;pwned\x07\x9b2J\u2028\u202e\u2066\x7f\x85z"


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def test_lines_tables_and_sentences_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(f"{EVIL}\nb")
    print_table((EVIL, "B"), [(EVIL, "2"), ("x\ny", EVIL)])
    fail(EVIL)
    warn(EVIL)
    say(EVIL)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert is_harmless(err)
    first, header, *rows = out.splitlines()
    assert first.endswith(r"\nb")
    assert len({line.index("  ") for line in (header, rows[0])}) == 1, "escapes count as width"
    assert len(rows) == 2


def test_json_and_yaml_are_harmless_and_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"message": EVIL, EVIL: ["é", "two\nlines"]}
    print_json(value)
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert json.loads(told) == value
    print_yaml(value)
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert yaml.safe_load(told) == value
    print_yaml({"message": "é"})
    assert capsys.readouterr().out == "message: é\n"


def test_an_error_shows_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    fail("the server https://user:s3cret@host is not there")
    assert "https://user:xxxxx@host" in capsys.readouterr().err


PRINTING = ("output.py", "startup.py")
"""The one way out, and what is made safe on the spot."""


def test_commands_print_what_is_not_their_own_through_one_module() -> None:
    wrong = []
    for path in sorted(Path(moorage.cli.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if path.name in PRINTING or not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "print" and node.args:
                shown = ast.unparse(node.args[0])
                if not isinstance(node.args[0], ast.Constant) and "printable(" not in shown:
                    wrong.append(f"{path.name}: print({shown})")
    assert wrong == ["conformance.py: print(f'\\r{done} cases')"]
