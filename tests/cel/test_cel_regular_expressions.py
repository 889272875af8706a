"""Regular expressions give what Go's regexp gives, in linear time; the answers are Go's own."""

import pytest

from cel.go_regexps import INVALID, MATCHES
from moorage.cel import CompileError, Environment, EvaluationError
from moorage.cel.strings import Regex

ENVIRONMENT = Environment({"text": "string"})


def ask(expression: str, text: str = "") -> bool:
    return ENVIRONMENT.compile(expression).evaluate_bool({"text": text})


@pytest.mark.parametrize(("pattern", "text", "found", "matches"), MATCHES)
def test_a_pattern_finds_what_go_finds(
    pattern: str, text: str, found: bool, matches: list[str]
) -> None:
    regex = Regex(pattern)
    assert regex.found_in(text) == found
    assert list(regex.all(text)) == matches
    assert regex.first(text) == (matches[0] if matches else "")


@pytest.mark.parametrize(("pattern", "complaint"), INVALID)
def test_an_invalid_pattern_is_refused_in_the_words_of_go(pattern: str, complaint: str) -> None:
    with pytest.raises(EvaluationError) as refused:
        Regex(pattern)
    assert str(refused.value) == complaint


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*a){25}$", r"(a?){50}a{50}b"])
@pytest.mark.parametrize("call", ["matches", "find", "findAll"])
def test_no_pattern_takes_exponential_time(pattern: str, call: str) -> None:
    results = {"matches": "", "find": '==""', "findAll": ".size()==0"}
    assert ask(f"text.{call}({pattern!r}){results[call]}", "a" * 60 + "!") is (call != "matches")


def test_a_huge_program_on_a_long_text_is_refused() -> None:
    expression = f'"{"a" * 4000}".matches("{"(x?){100}" * 400}")'
    with pytest.raises(EvaluationError, match="regular expression too large"):
        ask(expression)


def test_a_constant_pattern_of_find_is_looked_at_when_the_program_is_made() -> None:
    with pytest.raises(CompileError) as refused:
        ask('text.find("(a") == ""')
    assert str(refused.value) == (
        "program instantiation failed: error parsing regexp: missing closing ): `(a`"
    )
