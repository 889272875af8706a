"""Whatever is wrong with a file, one line says where and what, and nothing else is raised."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage.config import documents, load_config, load_profile
from moorage.config.types import API_VERSION, KIND
from moorage.errors import ConfigError

HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
NESTED_ALIASES = "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def message(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as error:
        load_config(text, "cfg.yaml")
    shown = str(error.value)
    assert "\n" not in shown
    assert shown.startswith("cfg.yaml: ")
    return shown.removeprefix("cfg.yaml: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "Object 'Kind' is missing", id="an empty file"),
        pytest.param("null", "Object 'Kind' is missing", id="a null"),
        pytest.param(f"apiVersion: {API_VERSION}", "Object 'Kind' is missing", id="no kind"),
        pytest.param(f"kind: {KIND}", "Object 'apiVersion' is missing", id="no version"),
        pytest.param("- a", "expected a map, got a list", id="a list"),
        pytest.param("hello", 'expected a map, got the string "hello"', id="a string"),
        pytest.param(
            "kind: [a]", "kind: expected a string, got a list", id="a kind that is a list"
        ),
        pytest.param(
            "a: b: c", "yaml: line 1: mapping values are not allowed in this context", id="bad YAML"
        ),
        pytest.param(
            "\tfoo", "yaml: line 1: found character that cannot start any token", id="a tab"
        ),
        pytest.param("a: [1", "yaml: line 2: did not find expected ',' or ']'", id="an open list"),
        pytest.param(
            "a: \x01", "yaml: control characters are not allowed", id="a control character"
        ),
        pytest.param(b"\xff\xfe", "yaml: invalid UTF-8", id="bytes that are no text"),
        pytest.param("a: \ud800", "yaml: invalid UTF-8", id="text that is no text"),
        pytest.param("a: &a [*a]", "yaml: anchor 'a' value contains itself", id="a loop"),
        pytest.param("a: *b", "yaml: unknown anchor 'b' referenced", id="an unknown alias"),
        pytest.param(
            "<<: 3",
            "yaml: line 1: map merge requires map or sequence of maps as the value",
            id="a merge of no map",
        ),
        pytest.param("? [a]\n: b", "yaml: line 1: invalid map key", id="a list as a key"),
        pytest.param("~: b", "yaml: line 1: invalid map key", id="a null as a key"),
        pytest.param(
            "a: !!binary '?'",
            "yaml: !!binary value contains invalid base64 data",
            id="binary data that is none",
        ),
        pytest.param("[" * 5000, "yaml: exceeded max depth of 200", id="deep YAML"),
        pytest.param(
            '{"a":' * 5000, "json parse error: exceeded max depth of 200", id="very deep JSON"
        ),
        pytest.param(
            '{"a":' * 300 + "1" + "}" * 300,
            "json parse error: exceeded max depth of 200",
            id="deep JSON",
        ),
        pytest.param(
            NESTED_ALIASES, "yaml: document contains excessive aliasing", id="a billion laughs"
        ),
        pytest.param(
            "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [[[[*a{n - 1}]]]]\n" for n in range(1, 60)),
            "yaml: exceeded max depth of 200",
            id="deep by aliases",
        ),
        pytest.param(
            f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]",
            "yaml: document contains excessive aliasing",
            id="a long text many times",
        ),
        pytest.param(
            '{"kind": }', "json parse error: line 1 column 10: Expecting value", id="bad JSON"
        ),
        pytest.param('{"a": NaN}', "json parse error: invalid number NaN", id="a NaN in JSON"),
        pytest.param(
            '{"apiVersion": "a/b/c\\nd", "kind": "x"}',
            "unexpected GroupVersion string: a/b/c d",
            id="a line break in a name",
        ),
        pytest.param(
            '{"apiVersion": "v1", "kind": "\\ud800"}',
            'no kind "\ufffd" is registered for version "v1" in scheme '
            '"pkg/scheduler/apis/config/scheme/scheme.go:29"',
            id="half a character",
        ),
    ],
)
def test_a_file_that_is_no_configuration(text: str | bytes, expected: str) -> None:
    assert message(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "parallelism: '16'",
            'parallelism: expected a 32-bit integer, got the string "16"',
            id="a string for a number",
        ),
        pytest.param(
            "parallelism: 3000000000",
            "parallelism: expected a 32-bit integer, got 3000000000",
            id="a number beyond 32 bits",
        ),
        pytest.param(
            "podMaxBackoffSeconds: 9223372036854775808",
            "podMaxBackoffSeconds: expected a 64-bit integer, got 9223372036854775808",
            id="a number beyond 64 bits",
        ),
        pytest.param(
            f"parallelism: {'9' * 5000}",
            "parallelism: expected a 32-bit integer, got a number out of range",
            id="a number of 5000 digits",
        ),
        pytest.param(
            "parallelism: 1.5", "parallelism: expected a 32-bit integer, got 1.5", id="a fraction"
        ),
        pytest.param(
            "parallelism: true",
            "parallelism: expected a 32-bit integer, got true",
            id="a boolean for a number",
        ),
        pytest.param(
            "enableProfiling: 'true'",
            'enableProfiling: expected true or false, got the string "true"',
            id="a string for a boolean",
        ),
        pytest.param("profiles: {}", "profiles: expected a list, got a map", id="a map for a list"),
        pytest.param(
            "leaderElection: 3", "leaderElection: expected a map, got 3", id="a number for a map"
        ),
        pytest.param(
            "profiles: [{plugins: []}]",
            "profiles[0].plugins: expected a map, got a list",
            id="a list for a map",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {plugins: {score: {enabled: [{name: 3}]}}}]",
            "profiles[1].plugins.score.enabled[0].name: expected a string, got 3",
            id="a number deep inside",
        ),
        pytest.param(
            f"profiles: [{{plugins: {{score: {'x' * 50}}}}}]",
            f'profiles[0].plugins.score: expected a map, got the string "{"x" * 40}…"',
            id="a long string is cut",
        ),
        pytest.param(
            "clientConnection: {qps: .nan}",
            "clientConnection.qps: expected a 32-bit number, got a number out of range",
            id="not a number",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 15}",
            'leaderElection.leaseDuration: expected a duration such as "15s", got 15',
            id="a number for a duration",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: '15'}",
            'leaderElection.leaseDuration: time: missing unit in duration "15"',
            id="a duration without a unit",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: null}",
            'leaderElection.leaseDuration: time: invalid duration ""',
            id="a null duration",
        ),
        pytest.param(
            "extenders: [{tlsConfig: {certData: '###'}}]",
            'extenders[0].tlsConfig.certData: expected base64 text, got the string "###"',
            id="data that is not base64",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: [1]}]}]",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: "
            "expected a map, got a list",
            id="arguments that are a list",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: x}}]}]",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: "
            'ignoredResources: expected a list, got the string "x"',
            id="an argument of the wrong type",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: false}}]}]",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: "
            "kind: expected a string, got false",
            id="a kind of the wrong type",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_what_was_expected(
    text: str, expected: str
) -> None:
    assert message(HEADER + text) == expected


def test_yaml_is_read_the_same_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEADER + "parallelism: 0x1F\nprofiles: [{schedulerName: 'a', plugins: &p {}}]\n"
    expected = load_config(text, "cfg.yaml")
    monkeypatch.setattr(documents, "SafeLoader", yaml.SafeLoader)
    assert load_config(text, "cfg.yaml") == expected
    assert message("a: b: c") == "yaml: line 1: mapping values are not allowed here"
    assert message("[" * 5000) == "yaml: exceeded max depth of 200"


def test_at_most_a_hundred_unknown_fields_are_listed() -> None:
    text = HEADER + "".join(f"x{number}: 1\n" for number in range(500))
    assert message(text).count("unknown field") == 100


@pytest.mark.parametrize("profile", [3, [], "x", {"plugins": 3}, {1: 2}])
def test_a_profile_that_is_none_is_refused_like_a_file(profile: Any) -> None:
    with pytest.raises(ConfigError, match=r"^golden: .*profiles\[0\]"):
        load_profile(profile, "golden")


FULL: dict[str, Any] = {
    "parallelism": 3,
    "leaderElection": {"leaderElect": True, "leaseDuration": "15s", "resourceName": "a"},
    "clientConnection": {"qps": 3.5, "burst": 4},
    "profiles": [
        {
            "schedulerName": "x",
            "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 3}]}},
            "pluginConfig": [
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchFields": [
                                            {"key": "a", "operator": "In", "values": ["b"]}
                                        ]
                                    }
                                ]
                            }
                        }
                    },
                },
                {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 3, "kind": None}},
            ],
        }
    ],
    "extenders": [{"urlPrefix": "a", "weight": 3, "tlsConfig": {"certData": "aGVsbG8="}}],
}


def paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


@given(
    st.sampled_from([path for path in paths(FULL) if path]),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from([[], {}, [None], [[]], [{}], {"kind": 1}, {"name": []}]),
)
def test_any_value_anywhere_is_loaded_or_refused_in_one_line(path: Any, value: object) -> None:
    document = copy.deepcopy({"apiVersion": API_VERSION, "kind": KIND, **FULL})
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    shown = None
    try:
        load_config(json.dumps(document), "cfg.json")
    except ConfigError as error:
        shown = str(error)
    assert shown is None or (shown.startswith("cfg.json: ") and "\n" not in shown)


@given(st.text() | st.binary())
def test_any_text_is_refused_in_one_line(text: str | bytes) -> None:
    assert message(text)


@pytest.mark.parametrize("address", ["http://[bad", "http://host:99999"])
def test_an_extender_needs_an_address_that_can_be_read(address: str) -> None:
    text = message(
        f"apiVersion: {API_VERSION}\nkind: {KIND}\nextenders: [{{urlPrefix: '{address}'}}]"
    )
    assert f'extenders[0].urlPrefix: Invalid value: "{address}": must be a URL' in text
