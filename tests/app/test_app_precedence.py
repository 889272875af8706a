"""Flags and files: which of them wins, and when what is checked."""

from pathlib import Path

import pytest

from moorage.app.merged_config import Document, complete, configuration, overlaid
from moorage.app.options import Options, parse_options
from moorage.config import KubeSchedulerConfiguration, default_config
from moorage.errors import ConfigError, InputError
from moorage.model.duration import Duration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def options(*words: str) -> Options:
    found = parse_options(words)
    assert isinstance(found, Options)
    return found


def completed(*words: str) -> KubeSchedulerConfiguration:
    return complete(options(*words))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.yaml"
    path.write_text(
        HEAD
        + "leaderElection: {leaderElect: false, leaseDuration: 20s, resourceName: mine}\n"
        + "clientConnection: {kubeconfig: /in/file, qps: 5}\n"
        + "enableProfiling: false\n"
    )
    return path


def test_cli_016_without_a_file_the_deprecated_flags_count() -> None:
    config = completed(
        "--kubeconfig=/k",
        "--kube-api-content-type=application/json",
        "--kube-api-qps=2.5",
        "--kube-api-burst=3",
        "--profiling=false",
        "--leader-elect=false",
        "--leader-elect-retry-period=1s",
    )
    client = config.client_connection
    assert (client.kubeconfig, client.content_type) == ("/k", "application/json")
    assert (client.qps, client.burst) == (2.5, 3)
    assert not config.enable_profiling
    assert config.enable_contention_profiling
    assert not config.leader_election.leader_elect
    assert config.leader_election.retry_period == Duration.of_seconds(1)
    assert config.leader_election.lease_duration == Duration.of_seconds(15)


def test_nothing_given_is_the_default_configuration() -> None:
    assert completed() == default_config()
    assert options().flag_values["secure-port"] == "10259"


def test_cli_017_with_a_file_the_deprecated_flags_are_void(file: Path) -> None:
    given = options(
        f"--config={file}",
        "--kubeconfig=/k",
        "--kube-api-qps=99",
        "--profiling=true",
        "--pod-max-in-unschedulable-pods-duration=1m",
        "--master=http://m",
    )
    config = complete(given)
    assert config.client_connection.kubeconfig == "/in/file"
    assert config.client_connection.qps == 5
    assert not config.enable_profiling
    assert given.pod_max_in_unschedulable_pods_duration == Duration.of_seconds(60)
    assert given.master == "http://m"


def test_cli_017_leader_election_flags_win_over_a_file(file: Path) -> None:
    election = completed(
        f"--config={file}", "--leader-elect", "--leader-elect-lease-duration=30s"
    ).leader_election
    assert election.leader_elect
    assert election.lease_duration == Duration.of_seconds(30)
    assert election.resource_name == "mine"
    assert election.renew_deadline == Duration.of_seconds(10)


def test_cli_008_a_file_is_checked_after_the_flags_were_laid_over_it(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD + "leaderElection: {leaseDuration: 5s}\n")
    with pytest.raises(ConfigError) as error:
        completed(f"--config={path}")
    text = (
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'
    )
    assert str(error.value) == f"{path}: {text}"
    mended = completed(f"--config={path}", "--leader-elect-renew-deadline=4s")
    assert mended.leader_election.lease_duration == Duration.of_seconds(5)
    path.write_text(HEAD)
    with pytest.raises(ConfigError, match="resourceLock value must be"):
        completed(f"--config={path}", "--leader-elect-resource-lock=endpoints")


def test_flags_alone_are_not_checked_as_a_file_is() -> None:
    assert completed("--leader-elect-lease-duration=1s").leader_election.lease_duration == (
        Duration.of_seconds(1)
    )


def test_cli_007_all_mistakes_in_options_are_told_before_any_file_is_read() -> None:
    with pytest.raises(ConfigError) as error:
        completed("--config=/nonexistent", "--secure-port=-1", "--disabled-metrics=a-b")
    assert str(error.value).startswith("[--secure-port -1 must be between 0 and 65535, inclusive.")
    assert str(error.value).endswith(', got "a-b"]')


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^open /nonexistent/a: no such file or directory$"):
        completed("--config=/nonexistent/a")
    with pytest.raises(InputError, match=rf"^read {tmp_path}: is a directory$"):
        completed(f"--config={tmp_path}")


def test_gates_reach_the_configuration_and_its_checks(tmp_path: Path) -> None:
    names = {
        ref.name
        for ref in completed("--feature-gates=GenericWorkload=true")
        .profiles[0]
        .plugins.multi_point.enabled
    }
    assert "GangScheduling" in names
    older = options("--emulated-version=1.36", "--feature-gates=DRAExtendedResource=false")
    assert not older.gates.enabled("DRAExtendedResource")
    assert not older.gates.enabled("StorageCapacityScoring")


def test_a_document_from_elsewhere_takes_the_place_of_a_file() -> None:
    document = Document("ns/name:key", (HEAD + "parallelism: 3\n").encode())
    given = options("--config-from-configmap=ns/name:key", "--kubeconfig=/k", "--kube-api-qps=9")
    config = complete(given, document)
    assert config.parallelism == 3
    assert config.client_connection.kubeconfig == "/k"
    assert config.client_connection.qps == 50
    with pytest.raises(ConfigError, match=r"^ns/name:key: strict decoding error: "):
        configuration(given, Document("ns/name:key", (HEAD + "a: 1\n").encode()))


def test_a_configuration_from_elsewhere_gets_the_same_overlay() -> None:
    config = overlaid(options("--leader-elect=false"), default_config(), "policy.cfg")
    assert not config.leader_election.leader_elect


def test_headers_that_break_aggregation_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    completed("--requestheader-group-headers=X-Team")
    assert caplog.messages == [
        "--requestheader-group-headers is set without specifying the standard X-Remote-Group "
        "header - API aggregation will not work"
    ]


def test_alpha_features_of_an_older_version_are_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    completed("--emulated-version=1.35", "--feature-gates=GenericWorkload=true")
    completed("--feature-gates=GenericWorkload=true")
    assert caplog.messages == [
        "component has alpha features enabled in emulated version, this is unsupported: "
        "features=[GenericWorkload]"
    ]


def test_a_manifest_of_labels_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "labels.yaml"
    path.write_text('"metric,label": "a,b"\n')
    assert options(f"--allow-metric-labels-manifest={path}").validate() == []
    path.write_text("metric: 1\n")
    (error,) = options(f"--allow-metric-labels-manifest={path}").validate()
    assert error.startswith(
        f'metrics.allowListMappingManifest: Invalid value: "{path}": invalid allow list mapping in '
        'manifest: [metrics.allowListMappingManifest: Invalid value: {"metric":"1"}: must have keys'
    )
    for text in ("a: {b: c}\n", "- a\n", "a: [\n"):
        path.write_text(text)
        (error,) = options(f"--allow-metric-labels-manifest={path}").validate()
        assert ": failed to parse allow list manifest: " in error
    path.write_text("")
    both = options(f"--allow-metric-labels-manifest={path}", "--allow-metric-labels=a,b=c")
    (error,) = both.validate()
    assert error.endswith(": cannot specify both allowListMapping and allowListMappingManifest")
