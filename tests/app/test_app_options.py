"""What a command line fills in, and when the process is over before it began."""

import platform
import re

import pytest

from moorage.app.options import ConfigMapKey, EarlyExit, Options, parse_options
from moorage.http.options import SniCertificate
from moorage.model.duration import Duration
from moorage.version import KUBERNETES_VERSION


def options(*words: str) -> Options:
    found = parse_options(words)
    assert isinstance(found, Options)
    return found


def over(*words: str) -> EarlyExit:
    found = parse_options(words)
    assert isinstance(found, EarlyExit)
    return found


def test_nothing_given_is_nothing_but_defaults() -> None:
    found = options()
    plain = Options()
    for name in ("serving", "authentication", "authorization", "metrics", "logging", "gates"):
        assert getattr(found, name) == getattr(plain, name), name
    assert found.leader_election == found.client_connection == found.profiling == {}
    assert found.pod_max_in_unschedulable_pods_duration == Duration.of_seconds(300)
    assert found.validate() == []


def test_serving_flags_fill_in_serving_options() -> None:
    serving = options(
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--disable-http2-serving",
        "--cert-dir=/certs",
        "--tls-cert-file=a.crt",
        "--tls-private-key-file=a.key",
        "--tls-sni-cert-key=b.crt,b.key: x.example.com , *.y.example.com",
        "--tls-cipher-suites=TLS_AES_128_GCM_SHA256",
        "--tls-min-version=VersionTLS13",
        "--tls-curve-preferences=29,23",
        "--http2-max-streams-per-connection=9",
        "--permit-port-sharing",
        "--permit-address-sharing",
    ).serving
    assert (serving.bind_address, serving.secure_port) == ("127.0.0.1", 0)
    assert (serving.cert_dir, serving.cert_file, serving.key_file) == ("/certs", "a.crt", "a.key")
    assert serving.sni == (SniCertificate("b.crt", "b.key", ("x.example.com", "*.y.example.com")),)
    assert serving.cipher_suites == ("TLS_AES_128_GCM_SHA256",)
    assert serving.min_version == "VersionTLS13"
    assert serving.curve_preferences == (29, 23)
    assert serving.permit_port_sharing
    assert serving.permit_address_sharing


def test_authentication_and_authorization_flags_fill_in_theirs() -> None:
    found = options(
        "--authentication-kubeconfig=n",
        "--authentication-token-webhook-cache-ttl=1m",
        "--authentication-skip-lookup",
        "--authentication-tolerate-lookup-failure=false",
        "--client-ca-file=ca",
        "--requestheader-client-ca-file=rca",
        "--requestheader-allowed-names=a,b",
        "--requestheader-username-headers=u",
        "--requestheader-uid-headers=i",
        "--requestheader-group-headers=g",
        "--requestheader-extra-headers-prefix=e",
        "--authorization-kubeconfig=z",
        "--authorization-always-allow-paths=/metrics",
        "--authorization-webhook-cache-authorized-ttl=2s",
        "--authorization-webhook-cache-unauthorized-ttl=500ms",
    )
    who, may = found.authentication, found.authorization
    assert (who.kubeconfig, who.token_cache_seconds, who.client_ca_file) == ("n", 60.0, "ca")
    assert who.skip_lookup
    assert not who.tolerate_lookup_failure
    header = who.request_header
    assert (header.client_ca_file, header.allowed_names) == ("rca", ("a", "b"))
    assert (header.username_headers, header.uid_headers) == (("u",), ("i",))
    assert (header.group_headers, header.extra_headers_prefixes) == (("g",), ("e",))
    assert (may.kubeconfig, may.always_allow_paths) == ("z", ("/metrics",))
    assert (may.allowed_cache_seconds, may.denied_cache_seconds) == (2.0, 0.5)


def test_logging_and_metrics_flags_fill_in_theirs() -> None:
    found = options(
        "-v3",
        "--vmodule=run=5",
        "--log-flush-frequency=1s",
        "--feature-gates=LoggingAlphaOptions=true",
        "--log-text-split-stream",
        "--log-text-info-buffer-size=2Ki",
        "--disabled-metrics=a",
        "--allow-metric-labels=a,b=c",
        "--show-hidden-metrics-for-version=1.35",
    )
    assert (found.logging.verbosity, found.logging.vmodule) == (3, (("run", 5),))
    assert found.logging.flush_frequency == Duration.of_seconds(1)
    assert (found.logging.streams.split, found.logging.streams.info_buffer_size) == (True, 2048)
    assert found.metrics.disabled_metrics == ("a",)
    assert found.metrics.allow_metric_labels == {"a,b": "c"}
    assert found.metrics.show_hidden_metrics_for_version == "1.35"


def test_only_what_was_given_wins_over_a_file_later() -> None:
    found = options("--leader-elect", "--kube-api-qps=1", "--contention-profiling=false")
    assert found.leader_election == {"leader_elect": True}
    assert found.client_connection == {"qps": 1.0}
    assert found.profiling == {"enable_contention_profiling": False}


def test_cli_009_the_version_is_printed() -> None:
    assert over("--version") == EarlyExit(0, stdout=f"Kubernetes {KUBERNETES_VERSION}\n")
    assert over("--version=true") == over("--version")


def test_cli_010_the_raw_version_has_upstreams_fields() -> None:
    text = over("--version=raw").stdout
    fields = dict(re.findall(r'(\w+):"([^"]*)"', text))
    assert text.startswith('version.Info{Major:"1", Minor:"37", EmulationMajor:""')
    assert list(fields)[-5:] == ["GitTreeState", "BuildDate", "GoVersion", "Compiler", "Platform"]
    assert fields["GitVersion"] == KUBERNETES_VERSION
    assert fields["GoVersion"] == f"python{platform.python_version()}"


def test_cli_011_another_version_may_be_reported() -> None:
    assert options().reported_version == KUBERNETES_VERSION
    assert options("--version=v1.37.1-mine+1").reported_version == "v1.37.1-mine+1"
    assert options("--version=false").reported_version == KUBERNETES_VERSION


def test_mistakes_are_noticed_in_upstreams_order() -> None:
    assert over("--help", "stray", "--feature-gates=X=1").code == 0
    assert "does not take any arguments" in over("stray", "--feature-gates=X=1").stderr
    assert "unrecognized feature gate" in over("--version", "--feature-gates=X=1").stderr
    assert over("--version", "--logging-format=x").code == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b", ConfigMapKey("a", "b")),
        ("a/b:c.yaml", ConfigMapKey("a", "b", "c.yaml")),
        ("a", None),
        ("/b", None),
        ("a/", None),
        ("a/b/c", None),
        ("a/b:", None),
        ("", None),
    ],
)
def test_a_configmap_is_named_by_namespace_name_and_key(
    text: str, expected: ConfigMapKey | None
) -> None:
    assert ConfigMapKey.parse(text) == expected


@pytest.mark.parametrize(
    ("words", "errors"),
    [
        (
            ("--config=a", "--config-from-configmap=a/b"),
            ["only one of --config and --config-from-configmap may be given"],
        ),
        (
            ("--legacy-policy-config-file=a", "--legacy-algorithm-provider=b"),
            [
                "only one of --legacy-policy-config-file and --legacy-algorithm-provider "
                "may be given"
            ],
        ),
        (
            ("--config-from-configmap=b",),
            ["--config-from-configmap b must have the form namespace/name[:key]"],
        ),
        (
            ("--legacy-policy-configmap=a/b:c",),
            ["--legacy-policy-configmap a/b:c must have the form namespace/name"],
        ),
        (("--config-from-configmap=a/b:c",), []),
    ],
)
def test_there_is_one_source_of_configuration(words: tuple[str, ...], errors: list[str]) -> None:
    assert options(*words).validate() == errors
