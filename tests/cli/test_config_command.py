"""`moorage config`: viewing, checking, comparing and converting configurations."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.running import Run, Write
from moorage.apiserver.server import ApiServer
from moorage.config import default_config, encode_config, load_config
from moorage.config.legacy_policy_conversion import convert_policy
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.resources import resource_for

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POLICY = '{"apiVersion": "v1", "kind": "Policy", "predicates": [], "priorities": []}'
CUSTOM = """\
{"apiVersion": "v1", "kind": "Policy", "predicates": [],
 "priorities": [{"name": "Zones", "weight": 2,
                 "argument": {"serviceAntiAffinity": {"label": "zone"}}}]}
"""


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


def test_viewing_nothing_shows_the_defaults(run: Run) -> None:
    done = run("config", "view")
    assert (done.code, done.err) == (0, "")
    shown = yaml.safe_load(done.out)
    assert shown == encode_config(default_config())
    assert [*shown] == sorted(shown)
    assert json.loads(run("config", "view", "-o", "json").out) == shown


def test_viewing_a_file_shows_what_a_scheduler_makes_of_it(run: Run, write: Write) -> None:
    text = "parallelism: 3\nprofiles: [{plugins: {multiPoint: {disabled: [{name: VolumeZone}]}}}]\n"
    shown = yaml.safe_load(run("config", "view", write("s.yaml", HEADER + text)).out)
    assert shown["parallelism"] == 3
    (profile,) = shown["profiles"]
    enabled = [ref["name"] for ref in profile["plugins"]["multiPoint"]["enabled"]]
    assert "VolumeZone" not in enabled
    assert enabled[0] == "SchedulingGates"


def test_what_is_viewed_can_be_viewed_again(run: Run, write: Write) -> None:
    first = run("config", "view", write("s.yaml", HEADER + "percentageOfNodesToScore: 30")).out
    again = yaml.safe_load(run("config", "view", write("t.yaml", first)).out)
    # All defaults are there, and no default plugin appears twice.
    assert again["percentageOfNodesToScore"] == 30
    assert again == yaml.safe_load(first)


def test_gates_change_what_is_viewed(run: Run) -> None:
    assert "filterTimeout: 10s" in run("config", "view").out
    done = run("config", "view", "--feature-gates", "DRASchedulerFilterTimeout=false")
    assert done.code == 0
    assert "filterTimeout: 10s" not in done.out
    done = run("config", "view", "--feature-gates", "Teapot=true")
    assert (done.code, done.err) == (1, "moorage: error: unrecognized feature gate: Teapot\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("profilez: []", "unknown field", id="unknown field"),
        pytest.param(
            "profiles: [{plugins: {filter: {enabled: [{name: Kraken}]}}}]",
            'FilterPlugin "Kraken" does not exist',
            id="unknown plugin",
        ),
    ],
)
def test_a_file_that_cannot_be_used_cannot_be_viewed(
    run: Run, write: Write, text: str, expected: str
) -> None:
    done = run("config", "view", write("s.yaml", HEADER + text))
    assert (done.code, done.out) == (1, "")
    assert expected in done.err
    assert "s.yaml: " in done.err
    assert done.err.count("\n") == 1


def test_every_error_of_every_file_is_told(run: Run, write: Write) -> None:
    good = write("good.yaml", HEADER)
    unknown = "profiles: [{plugins: {filter: {enabled: [{name: Hydra}, {name: Siren}]}}}]"
    bad = write("bad.yaml", HEADER + f"parallelism: 0\npercentageOfNodesToScore: 101\n{unknown}")
    plugin = "profiles: [{schedulerName: %s, plugins: {score: {enabled: [{name: %s}]}}}, %s]"
    other = "{schedulerName: b, plugins: {bind: {disabled: [{name: DefaultBinder}]}}}"
    unbuilt = write("unbuilt.yaml", HEADER + plugin % ("a", "Kraken", other))
    done = run("config", "validate", bad, good, unbuilt, "/no/such.yaml")
    start = "initializing profiles: creating profile for scheduler name"
    bind = 'at least one bind plugin is needed for profile with scheduler name "b"'
    assert done.out.splitlines() == [
        f"{bad}: parallelism: Invalid value: 0: should be an integer value greater than zero",
        f"{bad}: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        f'{bad}: {start} default-scheduler: FilterPlugin "Hydra" does not exist',
        f'{bad}: {start} default-scheduler: FilterPlugin "Siren" does not exist',
        f"{bad}: warning: parallelism: it changes nothing here: one thread looks at all nodes at "
        "once, in columns",
        f"{good}: valid",
        f'{unbuilt}: {start} a: ScorePlugin "Kraken" does not exist',
        f"{unbuilt}: {start} b: {bind}",
        "/no/such.yaml: cannot be read: No such file or directory",
    ]
    assert (done.code, done.err) == (1, "")


def test_what_only_the_elector_minds_is_told(run: Run, write: Write) -> None:
    election = "leaderElection: {leaseDuration: 20s, renewDeadline: 12s, retryPeriod: 10s}"
    path = write("s.yaml", HEADER + election)
    assert run("config", "validate", path).out == (
        f"{path}: couldn't create leader elector: "
        "renewDeadline must be greater than retryPeriod*JitterFactor\n"
    )
    path = write("s.yaml", HEADER + election.replace("12s", "12001ms"))
    assert run("config", "validate", path).code == 0


def test_oddities_are_warnings(run: Run, write: Write) -> None:
    text = "profiles: [{plugins: {score: {disabled: [{name: ImageLocalty}]}}}]"
    path = write("s.yaml", HEADER + text)
    done = run("config", "validate", path)
    assert done.code == 0
    assert done.out.splitlines() == [
        f'{path}: warning: profiles[0].plugins.score.disabled[0]: "ImageLocalty" is not enabled '
        "by default, so nothing is disabled",
        f"{path}: valid",
    ]


def test_a_configuration_may_come_from_standard_input(run: Run, standard_input: Any) -> None:
    standard_input(HEADER)
    assert run("config", "validate", "-").out == "standard input: valid\n"
    done = run("config", "validate", "-", "-")
    assert (done.code, done.err) == (
        1,
        "moorage: error: standard input can be read only once\n",
    )
    done = run("config", "diff", "-", "-")
    assert (done.code, done.err) == (
        2,
        "moorage: error: standard input can be read only once\n",
    )


def config_map(**data: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": data})


def test_a_configuration_may_be_inside_a_config_map(run: Run, write: Write) -> None:
    wrapped = config_map(**{"s.yaml": HEADER + "parallelism: 0", "notes": "hello"})
    path = write("cm.yaml", wrapped)
    assert run("config", "validate", path).out.startswith(f"{path}: data[s.yaml]: parallelism: ")
    done = run("config", "validate", write("cm.yaml", config_map(notes="hello")))
    assert done.code == 1
    assert (
        "expected a ConfigMap with one KubeSchedulerConfiguration under data, found 0" in done.out
    )


def test_a_difference_is_shown_and_is_the_exit_code(run: Run, write: Write) -> None:
    text = "parallelism: 3\nprofiles: [{plugins: {score: {disabled: [{name: ImageLocality}]}}}]\n"
    path, plain = write("s.yaml", HEADER + text), write("plain.yaml", HEADER)
    done = run("config", "diff", path)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines() == [
        "--- the defaults",
        f"+++ {path}",
        "~ parallelism: 16 -> 3",
        "profile default-scheduler:",
        "  - plugins.score[ImageLocality]: weight 1",
    ]
    done = run("config", "diff", path, plain, "-o", "json")
    assert done.code == 1
    assert json.loads(done.out) == [
        {"path": "parallelism", "before": 3, "after": 16},
        {
            "profile": "default-scheduler",
            "path": "plugins.score[ImageLocality]",
            "after": "weight 1",
        },
    ]


def test_no_difference_shows_nothing(run: Run, write: Write) -> None:
    path = write("s.yaml", HEADER + "parallelism: 16")
    assert run("config", "diff", path) == (0, "", "")
    assert run("config", "diff", path, path, "-o", "json") == (0, "[]\n", "")


def test_trouble_is_another_exit_code_than_a_difference(run: Run, write: Write) -> None:
    path = write("s.yaml", HEADER + "parallelism: 0")
    done = run("config", "diff", path)
    assert (done.code, done.out) == (2, "")
    assert "s.yaml: parallelism: Invalid value: 0" in done.err
    assert run("config", "diff", "/no/such.yaml").code == 2


def test_a_policy_becomes_a_configuration(run: Run, write: Write) -> None:
    path = write("policy.cfg", POLICY)
    done = run("config", "convert-policy", path)
    assert (done.code, done.err) == (0, "")
    assert load_config(done.out, "x") == convert_policy(json.loads(POLICY)).config
    assert run("config", "validate", write("s.yaml", done.out)).code == 0
    as_json = run("config", "convert-policy", path, "-o", "json", "--scheduler-name", "old").out
    assert json.loads(as_json)["profiles"][0]["schedulerName"] == "old"


def test_a_policy_may_come_from_standard_input(run: Run, standard_input: Any) -> None:
    standard_input(POLICY)
    assert run("config", "convert-policy", "-").code == 0


def test_a_policy_without_counterpart_needs_consent(run: Run, write: Write) -> None:
    path = write("policy.cfg", CUSTOM)
    done = run("config", "convert-policy", path)
    assert (done.code, done.out) == (1, "")
    first, last = done.err.splitlines()
    assert f'{path}: no counterpart in v1.37: priority "Zones" (serviceAntiAffinity): ' in first
    assert "topologySpreadConstraints" in first
    assert last == "moorage: error: nothing was converted; --drop-unsupported leaves these out"
    done = run("config", "convert-policy", path, "--drop-unsupported")
    assert done.code == 0
    assert done.err.startswith(f'moorage: warning: {path}: priority "Zones"')
    assert done.out == run("config", "convert-policy", write("p", POLICY)).out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("kind: Pod", "invalid policy: Object 'apiVersion' is missing", id="no policy"),
        pytest.param(
            POLICY.replace("[]", '[{"name": "Tide"}]', 1),
            'predicate type not found for "Tide"',
            id="unknown predicate",
        ),
        pytest.param(
            config_map(policy="x"),
            'missing policy config map value at key "policy.cfg"',
            id="another ConfigMap",
        ),
    ],
)
def test_a_bad_policy_is_one_sentence(run: Run, write: Write, text: str, expected: str) -> None:
    path = write("policy.cfg", text)
    done = run("config", "convert-policy", path)
    assert done == (1, "", f"moorage: error: {path}: {expected}\n")


def test_a_policy_file_that_is_not_there_or_no_file_is_named(run: Run, tmp_path: Path) -> None:
    done = run("config", "convert-policy", "/no/such.cfg")
    assert done.err == "moorage: error: /no/such.cfg: missing policy config file /no/such.cfg\n"
    done = run("config", "convert-policy", str(tmp_path))
    assert "couldn't read policy config: " in done.err
    assert done.code == 1


def test_algorithm_providers_are_converted(run: Run) -> None:
    done = run("config", "convert-policy", "--algorithm-provider", "ClusterAutoscalerProvider")
    assert done.code == 0
    assert "MostAllocated" in done.out
    done = run("config", "convert-policy", "--algorithm-provider", "Tide")
    assert done == (1, "", 'moorage: error: algorithm provider "Tide" is not registered\n')


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("view", "a", "b"),
        ("validate",),
        ("diff",),
        ("convert-policy",),
        ("convert-policy", "a", "--algorithm-provider", "b"),
        ("convert-policy", "--configmap", "name"),
        ("convert-policy", "--configmap", "a/b/c"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, argv: tuple[str, ...]) -> None:
    assert run("config", *argv).code == 2


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """Access to an embedded API server that holds two ConfigMaps."""
    ready, stop = threading.Event(), threading.Event()
    path = tmp_path / "kubeconfig"

    async def serve() -> None:
        server = ApiServer()
        await server.start()
        try:
            cluster = {"name": "c", "cluster": {"server": server.url}}
            context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
            document = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "contexts": [context],
                "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }
            path.write_text(json.dumps(document), "utf-8")
            async with KubeClient(Access(server=server.url)) as client:
                for name, key in (("policy", "policy.cfg"), ("other", "notes")):
                    body = {"metadata": {"name": name}, "data": {key: POLICY}}
                    await client.create(resource_for("ConfigMap"), "kube-system", body)
            ready.set()
            await asyncio.to_thread(stop.wait)
        finally:
            await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(20)
    yield str(path)
    stop.set()
    thread.join()


def test_cli_175_a_policy_is_fetched_from_the_cluster(
    run: Run, write: Write, kubeconfig: str
) -> None:
    def fetch(name: str) -> Any:
        return run("config", "convert-policy", "--configmap", name, "--kubeconfig", kubeconfig)

    done = fetch("kube-system/policy")
    assert (done.code, done.err) == (0, "")
    assert done.out == run("config", "convert-policy", write("p", POLICY)).out
    assert fetch("kube-system/none").err == (
        "moorage: error: ConfigMap kube-system/none: couldn't get policy config map "
        'kube-system/none: configmaps "none" not found\n'
    )
    assert fetch("kube-system/other").err == (
        "moorage: error: ConfigMap kube-system/other: "
        'missing policy config map value at key "policy.cfg"\n'
    )


def test_a_kubeconfig_that_is_not_there_is_named(run: Run) -> None:
    argv = ("--configmap", "a/b", "--kubeconfig", "/no/such/kubeconfig")
    done = run("config", "convert-policy", *argv)
    assert (done.code, done.out) == (1, "")
    assert "/no/such/kubeconfig" in done.err
