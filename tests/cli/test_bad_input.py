"""Bad input: one sentence that names file, object and field; exit code 1; no traceback."""

import io

import pytest

from cli.running import NODE, POD, Run, Write

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NEAR = """\
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: zone
        labelSelector: {matchExpressions: [{key: a, operator: Near, values: [b]}]}
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("kind: Pod\n metadata: [", ["line 2", "YAML"], id="broken YAML"),
        pytest.param("[]", ["apiVersion and kind"], id="not an object"),
        pytest.param("metadata: {name: a}", ["kind"], id="no kind"),
        pytest.param(
            POD.replace('"1"', "lots"),
            ["Pod fleet/ship", "spec.containers[0].resources.requests", "cpu", "lots"],
            id="bad quantity in a pod",
        ),
        pytest.param(
            NODE.replace("8Gi", "8Gigs"),
            ["Node quay-1", "status.allocatable", "memory", "8Gigs"],
            id="bad quantity in a node",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: ship, namespace: fleet}\n"
            f"spec:\n  containers: [{{name: hold}}]\n{NEAR}",
            ["Pod fleet/ship", "matchExpressions[0].operator", "Near"],
            id="invalid operator",
        ),
        pytest.param(
            POD + "---\n" + POD, ["document 2", "Pod fleet/ship", "twice"], id="given twice"
        ),
        pytest.param(
            POD.replace("spec: {", "spec: {priority: high, "),
            ["Pod fleet/ship", "spec.priority", "high"],
            id="wrong type",
        ),
    ],
)
def test_a_bad_manifest_is_one_sentence(
    run: Run, write: Write, text: str, named: list[str]
) -> None:
    done = run("schedule", "-f", write("cluster.yaml", text))
    assert done.code == 1
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert done.err.startswith("moorage: error: ")
    for part in ["cluster.yaml", *named]:
        assert part in done.err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param(CONFIG + "profilez: []\n", ["profilez"], id="unknown field"),
        pytest.param(
            CONFIG + "profiles: [{plugins: {filter: {enabled: [{name: Kraken}]}}}]\n",
            ["FilterPlugin", "Kraken"],
            id="unknown plugin",
        ),
        pytest.param(
            CONFIG + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {teapot: 1}}]}]\n",
            ["NodeAffinity", "teapot"],
            id="unknown argument",
        ),
        pytest.param(NODE, ["Node"], id="another kind"),
        pytest.param(CONFIG + "profiles: [", ["yaml"], id="broken YAML"),
    ],
)
def test_a_bad_configuration_is_one_sentence(
    run: Run, write: Write, text: str, named: list[str]
) -> None:
    cluster = write("cluster.yaml", f"{NODE}---\n{POD}")
    done = run("schedule", "-f", cluster, "--config", write("scheduler.yaml", text))
    assert done.code == 1
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert done.err.startswith("moorage: error: ")
    assert "scheduler.yaml" in done.err
    for part in named:
        assert part in done.err


def test_a_creation_time_that_is_none_names_the_pod(run: Run, write: Write) -> None:
    text = POD.replace("name: ship", "name: ship, creationTimestamp: yesterday")
    done = run("schedule", "-f", write("cluster.yaml", text))
    assert (done.code, done.out) == (1, "")
    for part in ("Pod fleet/ship", "metadata.creationTimestamp", "yesterday"):
        assert part in done.err


def test_files_that_are_not_there_are_named(run: Run, write: Write) -> None:
    done = run("schedule", "-f", "/no/such/file.yaml")
    assert (done.code, done.out) == (1, "")
    assert "/no/such/file.yaml" in done.err
    done = run("schedule", "-f", write("c.yaml", NODE), "--config", "/no/such/config.yaml")
    assert done.code == 1
    assert "/no/such/config.yaml" in done.err


def test_a_folder_without_manifests_is_named(run: Run, write: Write) -> None:
    folder = write("empty/notes.txt", "hello").removesuffix("/notes.txt")
    done = run("schedule", "-f", folder)
    assert done.code == 1
    assert folder in done.err


def test_binary_input_is_refused(run: Run, write: Write) -> None:
    path = write("c.yaml", "")
    with open(path, "wb") as file:
        file.write(b"\xff\xfe\x00")
    done = run("schedule", "-f", path)
    assert done.code == 1
    assert "c.yaml" in done.err


def test_binary_standard_input_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # As Python has it in the C locale, where any bytes pass for text.
    stream = io.TextIOWrapper(io.BytesIO(b"kind: Pod\xff"), "utf-8", errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", stream)
    done = run("schedule", "-f", "-")
    assert (done.code, done.out) == (1, "")
    assert done.err == "moorage: error: standard input is not UTF-8 text (byte 9)\n"
