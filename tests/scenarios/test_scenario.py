"""Scenarios as files: what is read, and what is said of one that is wrong."""

import re
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import mean, median

import msgspec
import pytest
import yaml

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.controllers.objects import Json
from moorage.errors import InputError
from moorage.model.quantity import parse_milli
from moorage.scenarios.generators import draw_amount, draw_seconds, generated
from moorage.scenarios.scenario import (
    Drawn,
    Generator,
    PodSize,
    Rate,
    Scenario,
    TraceOfPods,
)
from moorage.scenarios.scenario_file import ScenarioFile, parse_taint
from moorage.scenarios.schema import scenario_schema

ROOT = Path(__file__).parents[2]
HEAD = "apiVersion: simulate.moorage.io/v1alpha1\nkind: Scenario\ncluster: {}\n"
GROUP = HEAD.replace("{}", "{nodeGroups: [{name: g, shape: 'cpu=4', max: 1}]}")
GENERATE = (
    "arrivals:\n- generate: "
    "{name: p, rate: {perHour: 1}, until: 1h, sizes: [{requests: {cpu: '1'}}]"
)


def read(folder: Path, text: str) -> ScenarioFile:
    path = folder / "s.yaml"
    path.write_text(text)
    return ScenarioFile(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", ":1: expected YAML: expected the node content, but found '<stream end>'"),
        ("", ":1: expected `object`, got `null`"),
        (
            HEAD.replace("v1alpha1", "v1"),
            ":1: apiVersion: expected simulate.moorage.io/v1alpha1",
        ),
        (HEAD + "stop: {}\nstop: {}\n", ":5: expected each key once, got 'stop' again"),
        (HEAD + "stop: &s\n  after: *s\n", ":4: expected no alias within what it stands for"),
        (HEAD + "stop:\n  pending: .inf\n", ":5: expected a number that is finite, got .inf"),
        (
            HEAD + 'stop: {after: "1\\0"}\n',
            ":4: expected text without control characters or lone surrogates, got '1\\x00'",
        ),
        (
            HEAD + "stop: {pending: " + 101 * "9" + "}\n",
            ":4: expected at most 100 digits, got 101",
        ),
        (
            HEAD
            + "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(f"{c}: &{c} [{', '.join(10 * ['*' + b])}]\n" for b, c in pairwise("abcdefg")),
            ":4: expected at most 1,000,000 values, those of aliases included",
        ),
        (
            HEAD.replace("{}", "{nodes: ['1000001:cpu=4']}"),
            ":3: cluster.nodes[0]: expected at most 100,000 nodes, got 1,000,001",
        ),
        (
            HEAD.replace("{}", "{nodes: ['cpu=4,name=A B']}"),
            ':3: cluster.nodes[0]: Node A B-0: metadata.name: "A B-0" is not a lower case DNS name',
        ),
        (
            GENERATE.replace("name: p", "name: P"),
            ":5: arrivals[0].generate: Pod default/P-0: "
            'metadata.name: "P-0" is not a lower case DNS name',
        ),
        (
            GENERATE.replace("perHour: 1", "perHour: 1000000000"),
            ":5: arrivals[0].generate.rate: expected at most 500,000 objects until 1h",
        ),
        (
            GENERATE + ", start: 2h",
            ":5: arrivals[0].generate.until: expected no less than start (2h)",
        ),
        (
            GENERATE + ", runTime: {uniform: [5m, 1m]}",
            ":5: arrivals[0].generate.runTime.uniform: expected two amounts, the smaller first",
        ),
        (
            GENERATE + ", runTime: {lognormal: [5m, 700]}",
            ":5: arrivals[0].generate.runTime.lognormal[1]: expected a number from 0 to 10",
        ),
        (
            GENERATE + ", template: {spec: 5}",
            ":5: arrivals[0].generate.template.spec: expected a mapping, got 5",
        ),
        (
            GENERATE + ", template: {spec: {containers: [5]}}",
            ":5: arrivals[0].generate.template.spec.containers: expected a list of containers",
        ),
        (
            GENERATE + ", template: {specs: {}}",
            ":5: arrivals[0].generate.template: expected metadata and spec, got specs",
        ),
        (
            GENERATE + ", objects: [{apiVersion: batch/v1, kind: Job, metadata: {name: $(NAME)}, "
            "spec: {parallelism: 1000000, template: {}}}]",
            ":5: arrivals[0].generate: Job default/p-0: it makes more than 20000 objects",
        ),
        (
            HEAD + 'schedulers: [{name: " "}]\n',
            ":4: schedulers[0].name: expected a name, got ' '",
        ),
        (HEAD + "harbour: 1\n", ":1: object contains unknown field `harbour`"),
        (HEAD + "stop:\n  after: 5\n", ":5: stop.after: expected `str`, got `int`"),
        (
            HEAD + "stop:\n  after: soon\n",
            ":5: stop.after: expected a duration such as 90s or 1h30m, got 'soon'",
        ),
        (
            HEAD + "featureGates:\n  Harbour: true\n",
            ":5: featureGates: unrecognized feature gate: Harbour",
        ),
        (
            HEAD + "arrivals:\n- at: 1m\n",
            ":5: arrivals[0]: expected one of manifests, generate and trace",
        ),
        (
            GENERATE.replace("perHour: 1", "perHour: 0"),
            ":5: arrivals[0].generate.rate.perHour: expected a number above 0",
        ),
        (
            GENERATE.replace("perHour: 1", "perHour: 1, swing: 2"),
            ":5: arrivals[0].generate.rate.swing: expected a number from 0 to 1",
        ),
        (
            GENERATE.replace("perHour: 1", "perHour: 1, burst: 0"),
            ":5: arrivals[0].generate.rate.burst: expected at least 1",
        ),
        (
            GENERATE.replace("perHour: 1", "perHour: 1, period: 0s"),
            ":5: arrivals[0].generate.rate.period: expected more than 0s",
        ),
        (
            GENERATE.replace("perHour: 1", "perHour: 1, peak: noon"),
            ":5: arrivals[0].generate.rate.peak: "
            "expected a duration such as 90s or 1h30m, got 'noon'",
        ),
        (
            GENERATE.replace("perHour: 1", "perHour: 1, within: x"),
            ":5: arrivals[0].generate.rate.within: "
            "expected a duration such as 90s or 1h30m, got 'x'",
        ),
        (
            GENERATE.replace("until: 1h", "until: x"),
            ":5: arrivals[0].generate.until: expected a duration such as 90s or 1h30m, got 'x'",
        ),
        (
            GENERATE + ", start: x",
            ":5: arrivals[0].generate.start: expected a duration such as 90s or 1h30m, got 'x'",
        ),
        (
            GENERATE.replace("'1'}", "'1'}, weight: 0"),
            ":5: arrivals[0].generate.sizes[0].weight: "
            "expected a number above 0, at most 1,000,000",
        ),
        (
            GENERATE.replace("sizes: [{requests: {cpu: '1'}}]", "like: {file: t}, runTime: {}"),
            ":5: arrivals[0].generate: expected no runTime, template or objects beside like",
        ),
        (
            GENERATE.replace("'1'", "{uniform: ['1', 'two']}"),
            ":5: arrivals[0].generate.sizes[0].requests.cpu.uniform: "
            "expected a quantity such as 500m, got 'two'",
        ),
        (
            GENERATE + ", like: {file: t.csv}",
            ":5: arrivals[0].generate: expected one of sizes and like",
        ),
        (
            GENERATE + ", objects: [{kind: Job, metadata: {name: j}}]",
            ":5: arrivals[0].generate.objects[0]: "
            "expected apiVersion, kind and a metadata.name with $(NAME)",
        ),
        (
            GENERATE + ", stay: {}",
            ":5: arrivals[0].generate.stay: "
            "expected one of constant, exponential, uniform, lognormal",
        ),
        (
            GENERATE.replace("'1'", "'one'"),
            ":5: arrivals[0].generate.sizes[0].requests.cpu: "
            "expected a quantity such as 500m, got 'one'",
        ),
        (
            GENERATE + ", runTime: {constant: 1m, exponential: 1m}",
            ":5: arrivals[0].generate.runTime: "
            "expected one of constant, exponential, uniform, lognormal",
        ),
        (
            GENERATE + ", runTime: {uniform: [1m, 2]}",
            ":5: arrivals[0].generate.runTime.uniform[1]: expected `str`, got `int`",
        ),
        (
            GROUP.replace("cpu=4", "cpu=four"),
            ":3: cluster.nodeGroups[0].shape: cpu=four: 'four' is not an amount of cpu; expected "
            "[COUNT:]cpu=32,memory=128Gi,gpu=8 and the like, with name= and zone= if you wish",
        ),
        (
            GROUP.replace("cpu=4", "price=low"),
            ":3: cluster.nodeGroups[0].shape: price=low: 'low' is not a price; expected "
            "[COUNT:]cpu=32,memory=128Gi,gpu=8 and the like, with name= and zone= if you wish",
        ),
        (
            GROUP.replace("max: 1", "max: 1, min: 2"),
            ":3: cluster.nodeGroups[0].min: expected 0 or more, and at most max",
        ),
        (
            GROUP.replace("max: 1", "max: 1, startUp: soon"),
            ":3: cluster.nodeGroups[0].startUp: "
            "expected a duration such as 90s or 1h30m, got 'soon'",
        ),
        (
            GROUP.replace("nodeGroups", "nodes: ['name=g'], nodeGroups"),
            ":3: cluster.nodeGroups[0].name: expected a name that no shape or other group has",
        ),
        (HEAD + "autoscaler: {every: 0s}\n", ":4: autoscaler.every: expected more than 0s"),
        (HEAD + "autoscaler: {below: 2}\n", ":4: autoscaler.below: expected a number from 0 to 1"),
        (
            HEAD + "autoscaler: {unneeded: x}\n",
            ":4: autoscaler.unneeded: expected a duration such as 90s or 1h30m, got 'x'",
        ),
        (
            HEAD + "autoscaler: {afterStart: x}\n",
            ":4: autoscaler.afterStart: expected a duration such as 90s or 1h30m, got 'x'",
        ),
        (
            HEAD + "events:\n- {at: 1s, node: n, what: sink}\n",
            ":5: events[0].what: expected one of cordon, drain, fail, price, reclaim, repair, "
            "taint, uncordon, untaint, upgrade",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: fail}\n",
            ":5: events[0]: expected one of node, group and selector",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: fail, group: g}\n",
            ":5: events[0].group: expected a node group or a shape, got 'g'",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: fail, selector: '=='}\n",
            ":5: events[0].selector: expected labels such as a=b,c!=d: "
            "unable to parse requirement: '==' is not understood",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: price, node: n}\n",
            ":5: events[0].price: expected a number of 0 or more where what is price",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: fail, selector: a, count: 0}\n",
            ":5: events[0].count: expected a number from 1 to 100,000",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: upgrade, selector: a, atOnce: 0}\n",
            ":5: events[0].atOnce: expected a number from 1 to 100,000",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: upgrade, selector: a, gone: x}\n",
            ":5: events[0].gone: expected a duration such as 90s or 1h30m, got 'x'",
        ),
        (
            HEAD + "events:\n- {at: 1s, what: reclaim, selector: a, notice: x}\n",
            ":5: events[0].notice: expected a duration such as 90s or 1h30m, got 'x'",
        ),
        (
            HEAD + "events:\n- {at: 1s, node: n, what: taint, taint: dry}\n",
            ":5: events[0].taint: expected key=value:Effect where what is a taint",
        ),
        (
            HEAD + "schedulers:\n- {name: a}\n- {name: a}\n",
            ":5: schedulers: expected at least one, and each name once",
        ),
        (HEAD + "stop: {pending: -1}\n", ":4: stop.pending: expected 0 or more"),
        (
            HEAD + "repetitions: {count: 0}\n",
            ":4: repetitions.count: expected a number from 1 to 10,000",
        ),
    ],
)
def test_a_scenario_that_is_wrong_is_told_by_line_and_field(
    tmp_path: Path, text: str, message: str
) -> None:
    if text.startswith("arrivals"):
        text = f"{HEAD}{text}}}\n"
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert str(error.value) == f"{tmp_path / 's.yaml'}{message}"


def test_a_scenario_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        ScenarioFile(tmp_path / "none.yaml")


def requests_of(pod: Json) -> Json:
    found: Json = pod["spec"]["containers"][0]["resources"]["requests"]
    return found


def test_pods_come_at_their_rate_and_sizes_by_their_weights(tmp_path: Path) -> None:
    file = read(tmp_path, HEAD)
    sizes = (PodSize({"cpu": "1"}, 3.0), PodSize({"cpu": "2"}))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"priorityClassName": "low"}}
    run_time = Drawn(constant="90s")
    given = Generator("p", Rate(600), "10h", sizes=sizes, run_time=run_time, template=template)
    pods = list(generated(file, given, Random(1)))
    assert len(pods) == pytest.approx(6000, rel=0.05)
    assert all(0 < one.at <= 36_000 and one.gone is None for one in pods)
    small = [one for one in pods if requests_of(one.objects[0]) == {"cpu": "1"}]
    assert len(small) == pytest.approx(4500, rel=0.05)
    first = pods[0].objects[0]
    assert first["metadata"] == {
        "name": "p-0",
        "labels": {"a": "b"},
        "annotations": {FINISH_AFTER: "90.000s"},
    }
    assert first["spec"]["restartPolicy"] == "Never"
    assert first["spec"]["priorityClassName"] == "low"
    assert pods == list(generated(file, given, Random(1)))


def test_a_rate_may_follow_the_hours_and_bring_many_at_once(tmp_path: Path) -> None:
    rate = Rate(10, swing=1.0, peak="6h", burst=20, within="1m")
    given = Generator("p", rate, "96h", sizes=(PodSize({"cpu": "1"}),))
    at = [one.at for one in generated(read(tmp_path, HEAD), given, Random(5))]
    assert len(at) == pytest.approx(96 * 10 * 20, rel=0.1)
    by_day = sum(time % 86_400 < 43_200 for time in at)
    # A whole swing has (1/2 + 1/pi) of everything in the half around the peak.
    assert by_day / len(at) == pytest.approx(0.818, abs=0.03)
    assert all(max(at[i : i + 20]) - min(at[i : i + 20]) < 60 for i in range(0, len(at), 20))


def test_workloads_come_under_a_name_and_go(tmp_path: Path) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "$(NAME)"},
        "spec": {"parallelism": 3, "template": {"metadata": {"labels": {"job": "$(NAME)"}}}},
    }
    given = Generator(
        "train",
        Rate(6),
        "10h",
        sizes=(PodSize({"cpu": Drawn(uniform=("500m", "1500m"))}),),
        run_time=Drawn(constant="1m"),
        objects=(job,),
        stay=Drawn(constant="1h"),
    )
    first = next(generated(read(tmp_path, HEAD), given, Random(2)))
    (made,) = first.objects
    assert first.gone == first.at + 3600
    assert made["metadata"]["name"] == "train-0"
    assert made["spec"]["parallelism"] == 3
    template = made["spec"]["template"]
    assert template["metadata"] == {
        "labels": {"job": "train-0"},
        "annotations": {FINISH_AFTER: "60.000s"},
    }
    assert re.fullmatch(r"\d+m|1", requests_of(template)["cpu"])
    assert job["metadata"] == {"name": "$(NAME)"}


def test_pods_like_those_of_a_trace_keep_what_belongs_together(tmp_path: Path) -> None:
    file = read(tmp_path, HEAD)
    (tmp_path / "t.csv").write_text("at,name,cpu,memory,runTime\n1m,a,1,1Gi,30s\n2m,b,2,2Gi,60s\n")
    given = Generator("p", Rate(60), "4h", like=TraceOfPods("t.csv"))
    pods = [one.objects[0] for one in generated(file, given, Random(1))]
    assert [pod["metadata"]["name"] for pod in pods[:2]] == ["p-0", "p-1"]
    found = {
        (requests_of(pod)["cpu"], pod["metadata"]["annotations"][FINISH_AFTER]) for pod in pods
    }
    assert found == {("1", "30.000s"), ("2", "60.000s")}


def test_amounts_are_drawn_in_thousandths() -> None:
    drawn = [draw_amount(Drawn(lognormal=("2", 0.5)), Random(i)) for i in range(999)]
    assert median(map(parse_milli, drawn)) == pytest.approx(2000, rel=0.1)
    assert draw_amount("2Gi", Random(1)) == "2Gi"
    assert draw_amount(Drawn(constant="1Gi"), Random(1)) == str(2**30)


def test_run_times_are_drawn_as_their_names_say() -> None:
    dice = Random(3)
    drawn = [draw_seconds(Drawn(exponential="10m"), dice) for _ in range(5000)]
    assert mean(drawn) == pytest.approx(600, rel=0.05)
    drawn = [draw_seconds(Drawn(uniform=("1m", "3m")), dice) for _ in range(5000)]
    assert 60 <= min(drawn) < 62 < 178 < max(drawn) <= 180
    drawn = [draw_seconds(Drawn(lognormal=("5m", 1.0)), dice) for _ in range(5000)]
    assert median(drawn) == pytest.approx(300, rel=0.1)
    assert draw_seconds(Drawn(constant="1m30s"), dice) == 90


def test_taints_are_written_as_for_kubectl() -> None:
    assert parse_taint("a=b:NoExecute") == {"key": "a", "value": "b", "effect": "NoExecute"}
    assert parse_taint("a:NoSchedule") == {"key": "a", "effect": "NoSchedule"}


def test_the_schema_names_every_field() -> None:
    schema = scenario_schema()
    named = {name for part in schema["$defs"].values() for name in part.get("properties", ())}
    assert {"apiVersion", "perHour", "runTime", "what", "manifests", "config"} <= named
    start_up = schema["$defs"]["NodeGroup"]["properties"]["startUp"]
    assert start_up == {
        "type": "string",
        "default": "90s",
        "description": "How long a node takes from the order until it is there.",
    }


def test_the_example_in_the_documentation_is_a_scenario() -> None:
    text = (ROOT / "docs" / "simulate.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        msgspec.convert(yaml.safe_load(example), Scenario)
