"""Every flag of kube-scheduler: its default, a value it takes, and one it refuses.

The numbers are rows of the list of flags that v1.37.1 has.
"""

from typing import NamedTuple

import pytest

from moorage.app.flag_table import MOORAGE, SECTIONS
from moorage.app.flags import parse
from moorage.app.options import EarlyExit, Options, parse_options
from moorage.connections.limits import ConnectionLimits
from moorage.errors import FlagError


class Row(NamedTuple):
    """A flag; without `refused` any text is fine."""

    number: str
    flag: str
    default: str
    given: str
    shown: str
    refused: str = ""
    why: str = ""


NO_INT = 'strconv.ParseInt: parsing "x": invalid syntax'
NO_BOOL = 'strconv.ParseBool: parsing "x": invalid syntax'
NO_DURATION = 'time: invalid duration "x"'
NO_PAIR = "expected comma separated certificate and key file paths"
NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
BARE_QUOTE = 'parse error on line 1, column 2: bare " in non-quoted-field'

ROWS = [
    Row("CLI-022", "config", "", "a.yaml", "a.yaml"),
    Row("CLI-023", "write-config-to", "", "a.yaml", "a.yaml"),
    Row("CLI-024", "master", "", "http://a", "http://a"),
    Row("CLI-025", "bind-address", "0.0.0.0", "::1", "::1", "x", 'failed to parse IP: "x"'),
    Row("CLI-026", "secure-port", "10259", "0x10", "16", "x", NO_INT),
    Row("CLI-027", "disable-http2-serving", "false", "T", "true", "x", NO_BOOL),
    Row("CLI-028", "cert-dir", "", "a", "a"),
    Row("CLI-029", "tls-cert-file", "", "a", "a"),
    Row("CLI-029", "tls-private-key-file", "", "a", "a"),
    Row("CLI-030", "tls-cipher-suites", "[]", "A,B", "[A,B]", 'a"', BARE_QUOTE),
    Row("CLI-031", "tls-curve-preferences", "[]", "1,2", "[1,2]", "x", NO_INT),
    Row("CLI-032", "tls-min-version", "", "VersionTLS13", "VersionTLS13"),
    Row("CLI-033", "tls-sni-cert-key", "[]", "a,b:*.c,d", "[a,b:*.c,d]", "x", NO_PAIR),
    Row("CLI-034", "http2-max-streams-per-connection", "0", "7", "7", "x", NO_INT),
    Row("CLI-035", "permit-port-sharing", "false", "1", "true", "x", NO_BOOL),
    Row("CLI-036", "permit-address-sharing", "false", "1", "true", "x", NO_BOOL),
    Row("CLI-037", "authentication-kubeconfig", "", "a", "a"),
    Row(
        "CLI-038", "authentication-token-webhook-cache-ttl", "10s", "60s", "1m0s", "x", NO_DURATION
    ),
    Row("CLI-039", "authentication-skip-lookup", "false", "true", "true", "x", NO_BOOL),
    Row("CLI-040", "authentication-tolerate-lookup-failure", "true", "f", "false", "x", NO_BOOL),
    Row("CLI-041", "client-ca-file", "", "a", "a"),
    Row("CLI-042", "requestheader-client-ca-file", "", "a", "a"),
    Row("CLI-043", "requestheader-allowed-names", "[]", "a,b", "[a,b]", 'a"', BARE_QUOTE),
    Row(
        "CLI-044", "requestheader-username-headers", "[x-remote-user]", "a", "[a]", 'a"', BARE_QUOTE
    ),
    Row("CLI-045", "requestheader-uid-headers", "[]", "x-remote-uid", "[x-remote-uid]"),
    Row("CLI-046", "requestheader-group-headers", "[x-remote-group]", "a", "[a]"),
    Row("CLI-047", "requestheader-extra-headers-prefix", "[x-remote-extra-]", "a", "[a]"),
    Row("CLI-048", "authorization-kubeconfig", "", "a", "a"),
    Row("CLI-049", "authorization-always-allow-paths", "[/healthz,/readyz,/livez]", "/a", "[/a]"),
    Row(
        "CLI-050", "authorization-webhook-cache-authorized-ttl", "10s", "1s", "1s", "x", NO_DURATION
    ),
    Row(
        "CLI-051",
        "authorization-webhook-cache-unauthorized-ttl",
        "10s",
        "0",
        "0s",
        "x",
        NO_DURATION,
    ),
    Row("CLI-052", "leader-elect", "true", "false", "false", "x", NO_BOOL),
    Row("CLI-053", "leader-elect-lease-duration", "15s", "20s", "20s", "x", NO_DURATION),
    Row("CLI-054", "leader-elect-renew-deadline", "10s", "1.5s", "1.5s", "x", NO_DURATION),
    Row("CLI-055", "leader-elect-retry-period", "2s", "1ms", "1ms", "x", NO_DURATION),
    Row("CLI-056", "leader-elect-resource-lock", "leases", "a", "a"),
    Row("CLI-057", "leader-elect-resource-name", "kube-scheduler", "a", "a"),
    Row("CLI-058", "leader-elect-resource-namespace", "kube-system", "a", "a"),
    Row("CLI-059", "profiling", "true", "0", "false", "x", NO_BOOL),
    Row("CLI-060", "contention-profiling", "true", "0", "false", "x", NO_BOOL),
    Row("CLI-061", "kubeconfig", "", "a", "a"),
    Row("CLI-062", "kube-api-content-type", "application/vnd.kubernetes.protobuf", "a", "a"),
    Row(
        "CLI-063",
        "kube-api-qps",
        "50",
        "1e9",
        "1e+09",
        "x",
        'strconv.ParseFloat: parsing "x": invalid syntax',
    ),
    Row("CLI-064", "kube-api-burst", "100", "-1", "-1", "x", NO_INT),
    Row(
        "CLI-065",
        "pod-max-in-unschedulable-pods-duration",
        "5m0s",
        "1h",
        "1h0m0s",
        "x",
        NO_DURATION,
    ),
    Row("CLI-066", "feature-gates", "", "kube:AllBeta=false", "kube:AllBeta=false"),
    Row("CLI-067", "emulated-version", "[]", "1.35", "[1.35]"),
    Row("CLI-068", "min-compatibility-version", "[]", "kube=1.34", "[kube=1.34]"),
    Row("CLI-069", "show-hidden-metrics-for-version", "", "1.35", "1.35"),
    Row("CLI-070", "disabled-metrics", "[]", '"a,b",c', '["a,b",c]', 'a"', BARE_QUOTE),
    Row(
        "CLI-071",
        "allow-metric-labels",
        "[]",
        "a,b=c",
        '["a,b=c"]',
        "x",
        "x must be formatted as key=value",
    ),
    Row("CLI-071", "allow-metric-labels-manifest", "", "a", "a"),
    Row("CLI-072", "logging-format", "text", "json", "json"),
    Row("CLI-073", "log-flush-frequency", "5s", "1s", "1s", "x", NO_DURATION),
    Row("CLI-074", "v", "0", "4", "4", "x", 'strconv.ParseUint: parsing "x": invalid syntax'),
    Row("CLI-075", "vmodule", "", "a=1", "a=1", "x", '"x" does not have the pattern=N format'),
    Row("CLI-076", "log-text-split-stream", "false", "true", "true", "x", NO_BOOL),
    Row("CLI-076", "log-json-split-stream", "false", "true", "true", "x", NO_BOOL),
    Row("CLI-076", "log-text-info-buffer-size", "0", "2048Ki", "2Mi", "x", NO_QUANTITY),
    Row("CLI-076", "log-json-info-buffer-size", "0", "1000", "1k", "x", NO_QUANTITY),
    Row("CLI-077", "help", "false", "false", "false", "x", NO_BOOL),
    Row("CLI-077", "version", "false", "raw", "raw", "x", NO_BOOL),
]

ALL = [pytest.param(row, id=f"{row.number} --{row.flag}") for row in ROWS]
STRICT = [case for case, row in zip(ALL, ROWS, strict=True) if row.refused]


def test_the_table_has_every_flag_of_upstream() -> None:
    upstream = [section for section in SECTIONS if section is not MOORAGE]
    assert {flag.name for section in upstream for flag in section.flags} == {
        row.flag for row in ROWS
    }


@pytest.mark.parametrize("row", ALL)
def test_a_flag_has_its_default(row: Row) -> None:
    line = parse(SECTIONS, [])
    assert line.shown[row.flag] == row.default
    assert row.flag not in line.given


@pytest.mark.parametrize("row", ALL)
def test_a_flag_takes_a_value(row: Row) -> None:
    line = parse(SECTIONS, [f"--{row.flag}={row.given}"])
    assert line.shown[row.flag] == row.shown
    assert line.given == {row.flag}
    underscored = parse(SECTIONS, [f"--{row.flag.replace('-', '_')}={row.given}"])
    assert underscored.shown == line.shown


@pytest.mark.parametrize("row", STRICT)
def test_a_flag_refuses_another(row: Row) -> None:
    with pytest.raises(FlagError) as error:
        parse(SECTIONS, [f"--{row.flag}={row.refused}"])
    assert str(error.value).endswith(f' for "--{row.flag}" flag: {row.why}') or (
        row.flag in ("v", "help") and str(error.value).endswith(f"flag: {row.why}")
    )


@pytest.mark.parametrize(
    "flag",
    [
        "port",
        "address",
        "algorithm-provider",
        "policy-config-file",
        "policy-configmap",
        "policy-configmap-namespace",
        "use-legacy-policy-config",
        "scheduler-name",
        "hard-pod-affinity-symmetric-weight",
        "lock-object-name",
        "lock-object-namespace",
    ],
)
def test_cli_078_a_flag_of_the_past_is_unknown(flag: str) -> None:
    found = parse_options([f"--{flag}=1"])
    assert isinstance(found, EarlyExit)
    assert found.code == 1
    assert found.stderr.endswith(f"\nError: unknown flag: --{flag}\n")


def test_flags_of_moorage_are_there_and_off() -> None:
    options = parse_options([])
    assert isinstance(options, Options)
    own = options.moorage
    assert not own.shadow
    assert own.watch_config
    assert own.config_from_configmap == own.legacy_algorithm_provider == ""
    chosen = parse_options(["--shadow", "--watch-config=false", "--legacy-policy-configmap=a/b"])
    assert isinstance(chosen, Options)
    assert chosen.moorage.shadow
    assert not chosen.moorage.watch_config
    assert chosen.moorage.legacy_policy_configmap == "a/b"


def test_connections_are_limited_by_flags() -> None:
    options = parse_options([])
    assert isinstance(options, Options)
    assert options.serving.connections == ConnectionLimits()
    chosen = parse_options(["--max-connections=9", "--max-connections-per-address=3"])
    assert isinstance(chosen, Options)
    assert chosen.serving.connections == ConnectionLimits(total=9, per_address=3)


def test_the_ledger_is_on_and_pages_and_annotations_have_to_be_asked_for() -> None:
    options = parse_options([])
    assert isinstance(options, Options)
    own = options.moorage
    assert (own.ledger, own.ledger_memory) == ("", 16 * 1024 * 1024)
    assert not own.explain_page
    assert not own.explain_annotations
    words = ["--ledger=/var/lib/moorage", "--ledger-memory=1M", "--explain-page"]
    chosen = parse_options([*words, "--explain-annotations"])
    assert isinstance(chosen, Options)
    assert chosen.validate() == []
    assert (chosen.moorage.ledger, chosen.moorage.ledger_memory) == ("/var/lib/moorage", 1_000_000)
    assert chosen.moorage.explain_page
    assert chosen.moorage.explain_annotations
    assert chosen.flag_values["ledger-memory"] == "1M"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ledger-memory=-1"], "--ledger-memory -1 must be 0 or more"),
        (["--max-connections=0"], "--max-connections 0 must be 1 or more"),
        (
            ["--max-connections-per-address=-1"],
            "--max-connections-per-address -1 must be 1 or more",
        ),
        (
            ["--ledger-memory=0", "--ledger=d"],
            "--ledger needs memory to write from, but --ledger-memory is 0",
        ),
        (
            ["--ledger-memory=0", "--explain-annotations"],
            "--explain-annotations needs the ledger, but --ledger-memory is 0",
        ),
        (
            ["--shadow", "--explain-annotations"],
            "--explain-annotations writes to pods, and --shadow writes nothing",
        ),
    ],
)
def test_flags_about_explanations_that_contradict_each_other_are_refused(
    words: list[str], told: str
) -> None:
    options = parse_options(words)
    assert isinstance(options, Options)
    assert options.validate() == [told]


def test_a_ledger_of_no_size_is_a_wrong_flag() -> None:
    found = parse_options(["--ledger-memory=much"])
    assert isinstance(found, EarlyExit)
    assert found.stderr.endswith(
        f'Error: invalid argument "much" for "--ledger-memory" flag: {NO_QUANTITY}\n'
    )
