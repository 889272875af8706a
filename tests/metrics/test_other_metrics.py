"""Metrics about everything around the scheduler: client, election, port, process, reloads."""

import inspect
import os
import time
from collections.abc import Callable

from metrics.measuring import Always, values_in
from metrics.upstream import described
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.config.feature_gates import FeatureGates
from moorage.framework.status import Code
from moorage.http.endpoints import PortObserver
from moorage.kube.client import ClientObserver
from moorage.kube.lease_claim import ElectionObserver
from moorage.metrics.exporter import AllMetrics
from moorage.metrics.pod_resources import render_pod_resources
from moorage.testing import make_pod


def all_metrics() -> AllMetrics:
    return AllMetrics(DEFAULT_FEATURE_GATES)


def test_requests_are_counted_by_code_method_and_host() -> None:
    metrics = all_metrics()
    client: ClientObserver = metrics.client
    client.throttled("api:6443", "POST", 0.2)
    client.answered("api:6443", "POST", 503)
    client.retried("api:6443", "POST", 503)
    client.answered("api:6443", "POST", 0)
    client.finished("api:6443", "POST", 0.03, 120, 5000)
    text = metrics.render()[1]
    assert values_in(text, "rest_client_requests_total") == {
        'code="503",host="api:6443",method="POST"': 1,
        'code="<error>",host="api:6443",method="POST"': 1,
    }
    labels = 'host="api:6443",verb="POST"'
    assert values_in(text, "rest_client_request_retries_total") == {f'code="503",{labels}': 1}
    assert values_in(text, "rest_client_request_duration_seconds_sum") == {labels: 0.03}
    assert values_in(text, "rest_client_rate_limiter_duration_seconds_sum") == {labels: 0.2}
    assert values_in(text, "rest_client_request_size_bytes_sum") == {labels: 120}
    assert values_in(text, "rest_client_response_size_bytes_sum") == {labels: 5000}


def test_how_far_each_kind_was_followed_is_told_where_a_version_is_a_number() -> None:
    metrics = all_metrics()
    seen = {
        ("", "v1", "Pod"): "1234567890123456789",
        ("storage.k8s.io", "v1", "StorageClass"): "7",
        ("example.com", "v1", "Foo"): "not-listed",
    }
    metrics.client.tell_followed(lambda: seen)
    assert values_in(metrics.render()[1], "informer_store_resource_version") == {
        'group="",name="kube-scheduler",resource="pods",version="v1"': 567890123456789,
        'group="storage.k8s.io",name="kube-scheduler",resource="storageclasss",version="v1"': 7,
    }


def test_the_elector_says_who_leads() -> None:
    metrics = all_metrics()
    election: ElectionObserver = metrics.election
    election.off("kube-scheduler")
    status = "leader_election_master_status"
    assert values_in(metrics.render()[1], status) == {'name="kube-scheduler"': 0}
    election.on("kube-scheduler")
    metrics.election.slowpath("kube-scheduler")
    text = metrics.render()[1]
    assert values_in(text, status) == {'name="kube-scheduler"': 1}
    assert values_in(text, "leader_election_slowpath_total") == {'name="kube-scheduler"': 1}


def test_the_port_tells_who_came_and_what_was_allowed() -> None:
    metrics = all_metrics()
    port: PortObserver = metrics.serving
    for user in ("admin", "system:serviceaccount:a:b", "me@example.com"):
        port.authenticated("success", user, 0.01)
    port.authenticated("failure", "", 0.02)
    port.authorized("no-opinion", 0.5)
    port.token_cached(True, 0.0)
    port.reviewed("TokenReview", "201", 0.1)
    port.reviewed("SubjectAccessReview", "<error>", 0.1)
    port.client_certificate(3600.0)
    text = metrics.render()[1]
    assert values_in(text, "authentication_attempts") == {
        'result="success"': 3,
        'result="failure"': 1,
    }
    assert values_in(text, "authenticated_user_requests") == {
        'username="admin"': 1,
        'username="other"': 1,
        'username="email_id"': 1,
    }
    assert values_in(text, "authorization_attempts_total") == {'result="no-opinion"': 1}
    assert values_in(text, "authorization_duration_seconds_sum") == {'result="no-opinion"': 0.5}
    assert values_in(text, "authentication_token_cache_request_total") == {'status="hit"': 1}
    assert values_in(text, "authentication_token_cache_fetch_total") == {'status="ok"': 1}
    assert values_in(text, "apiserver_delegated_authn_request_total") == {'code="201"': 1}
    assert values_in(text, "apiserver_delegated_authz_request_total") == {'code="<error>"': 1}
    assert values_in(text, "apiserver_client_certificate_expiration_seconds_sum") == {"": 3600}


def test_health_checks_have_a_page_of_their_own() -> None:
    metrics = all_metrics()
    metrics.serving.health_checked("readyz", "sched-handler-sync", False)
    metrics.serving.health_checked("readyz", "sched-handler-sync", True)
    text = metrics.slis.render()[1]
    labels = 'name="sched-handler-sync"'
    assert values_in(text, "kubernetes_healthcheck") == {f'{labels},type="readyz"': 1}
    assert values_in(text, "kubernetes_healthchecks_total") == {
        f'{labels},status="error",type="readyz"': 1,
        f'{labels},status="success",type="readyz"': 1,
    }
    assert described(text.decode())["process_start_time_seconds"]["help"].startswith("[ALPHA] ")
    assert b"kubernetes_healthcheck" not in metrics.render()[1]


def test_reloads_and_shadow_decisions_are_counted() -> None:
    now = 1000.0
    metrics = AllMetrics(DEFAULT_FEATURE_GATES, clock=lambda: now)
    metrics.operations.reload_refused()
    name = "moorage_config_last_reload_success_timestamp_seconds"
    assert values_in(metrics.render()[1], name) == {"": 1000}
    now = 2000.0
    metrics.operations.reloaded()
    metrics.operations.shadow_compared("agree")
    text = metrics.render()[1]
    assert values_in(text, name) == {"": 2000}
    assert values_in(text, "moorage_config_reloads_total") == {
        'result="error"': 1,
        'result="success"': 1,
    }
    assert values_in(text, "moorage_shadow_decisions_total") == {'result="agree"': 1}


def test_the_process_tells_what_it_takes() -> None:
    text = all_metrics().render()[1]
    [memory] = values_in(text, "process_resident_memory_bytes").values()
    assert 10e6 < memory < 10e9
    [started] = values_in(text, "process_start_time_seconds").values()
    assert 0 < time.time() - started < 3600 * 24
    [files] = values_in(text, "process_open_fds").values()
    assert 3 <= files <= len(os.listdir("/proc/self/fd")) + 5
    [cpu] = values_in(text, "process_cpu_seconds_total").values()
    assert abs(cpu - time.process_time()) < 5
    assert len(values_in(text, "python_gc_collections_total")) == 3


def test_gates_are_shown_with_their_stage_and_state() -> None:
    gates = FeatureGates({"GenericWorkload": True})
    features = values_in(AllMetrics(gates).render()[1], "kubernetes_feature_enabled")
    assert features['name="GenericWorkload",stage="BETA"'] == 1
    assert features['name="CompositePodGroup",stage="ALPHA"'] == 0
    assert features['name="DRAExtendedResource",stage=""'] == 1


def test_versions_are_those_of_the_scheduler_that_is_stood_in_for() -> None:
    text = all_metrics().render()[1]
    [build] = values_in(text, "kubernetes_build_info")
    assert 'git_version="v1.37.1"' in build
    assert 'major="1",minor="37"' in build
    assert values_in(text, "version_info") == {
        'binary="1.37.1",component="kube",emulation="1.37",min_compat="1.36"': 1
    }


def test_requests_and_limits_of_pods_are_shown_with_units() -> None:
    container = {
        "name": "c",
        "resources": {
            "requests": {"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "2"},
            "limits": {"cpu": "1", "attachable-volumes-x": "3", "hugepages-2Mi": "4Mi"},
        },
    }
    sidecar = {
        "name": "s",
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "100m"}},
    }
    init = {"name": "i", "resources": {"requests": {"memory": "2Gi"}}}
    pod = make_pod(
        "web",
        priority=7,
        node_name="n1",
        spec={
            "containers": [container],
            "initContainers": [sidecar, init],
            "overhead": {"cpu": "10m", "memory": "1Mi"},
        },
    )
    done = make_pod("done", cpu="1", node_name="n1", status={"phase": "Succeeded"})
    waiting = make_pod("waiting", cpu="1", status={"phase": "Failed"})
    text = render_pod_resources([pod, done, waiting])[1]

    def of(name: str, pod: str) -> dict[str, float]:
        found = values_in(text, name)
        return {
            key.partition("resource=")[2]: value
            for key, value in found.items()
            if f'pod="{pod}"' in key
        }

    rest = 'scheduler="default-scheduler",unit='
    assert of("kube_pod_resource_request", "web") == {
        f'"cpu",{rest}"cores"': 0.31,
        f'"memory",{rest}"bytes"': 2 * 1024**3 + 1024**2,
        f'"nvidia.com/gpu",{rest}""': 2,
    }
    assert of("kube_pod_resource_limit", "web") == {
        f'"cpu",{rest}"cores"': 1.11,
        f'"attachable-volumes-x",{rest}"integer"': 3,
        f'"hugepages-2Mi",{rest}"bytes"': 4 * 1024**2,
    }
    assert of("kube_pod_resource_request", "done") == {}
    assert of("kube_pod_resource_request", "waiting") == {f'"cpu",{rest}"cores"': 1}
    assert b'namespace="default",node="n1",pod="web",priority="7"' in text
    assert b'node="",pod="waiting",priority=""' in text


def test_requests_for_the_whole_pod_replace_the_sums() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    resources = {"requests": {"cpu": "5"}, "limits": {"cpu": "6"}}
    pod = make_pod("web", spec={"containers": [container], "resources": resources})
    text = render_pod_resources([pod])[1]
    assert list(values_in(text, "kube_pod_resource_request").values()) == [5]
    assert list(values_in(text, "kube_pod_resource_limit").values()) == [6]


def _plain_events(observer: object) -> list[tuple[Callable[..., None], list[object]]]:
    """The methods that take nothing but plain values, with some value for each."""
    some = {"str": "x", "float": 1.0, "int": 1, "bool": True, "Code": Code.SUCCESS}
    some |= {"float | None": 1.0}
    found = []
    for name, method in inspect.getmembers(type(observer), inspect.isfunction):
        kinds = [str(p.annotation) for p in inspect.signature(method).parameters.values()][1:]
        kinds = [
            kind.rpartition(".")[2].removesuffix("'>").removeprefix("<class '") for kind in kinds
        ]
        if not name.startswith("_") and all(kind in some for kind in kinds):
            found.append((getattr(observer, name), [some[kind] for kind in kinds]))
    return found


def test_whatever_is_told_is_counted_in_a_family_that_there_is() -> None:
    metrics = AllMetrics(DEFAULT_FEATURE_GATES, random=Always(0.0))
    observers = (metrics.scheduler, metrics.client, metrics.election, metrics.operations)
    events = [event for observer in observers for event in _plain_events(observer)]
    assert len(events) > 30
    for told, values in events:
        told(*values)
    for kind in ("TokenReview", "SubjectAccessReview"):
        metrics.serving.reviewed(kind, "201", 0.1)
    metrics.render()
