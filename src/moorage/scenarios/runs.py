"""Runs of a scenario: each scheduler with each seed."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from moorage.config import KubeSchedulerConfiguration, default_config, load_config
from moorage.controllers.kubelet import KubeletOptions
from moorage.controllers.objects import Json, is_finished
from moorage.errors import ConfigError, InputError
from moorage.model.custom import Definitions
from moorage.scenarios.autoscaler import Autoscaler, ScalingRule
from moorage.scenarios.comparison import comparisons
from moorage.scenarios.divergence import (
    PlacedPods,
    counted_differences,
    explained_parting,
    parting,
)
from moorage.scenarios.events import NodeEvents
from moorage.scenarios.generators import generated
from moorage.scenarios.measures import Measures
from moorage.scenarios.node_groups import GroupLimits, ScalingGroup, grouped_node
from moorage.scenarios.prices import Prices
from moorage.scenarios.quality.compaction import fewest_nodes
from moorage.scenarios.recorded_decisions import RecordedDecisions
from moorage.scenarios.scenario import ScenarioScheduler, Stop
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.simulation import Simulation
from moorage.scenarios.summary import summary
from moorage.scenarios.traces.changes import TraceChange, came, went
from moorage.scenarios.traces.layouts import trace_changes
from moorage.scenarios.traces.moorage_recordings import recorded_nodes
from moorage.simulator.manifests import load_manifests, read_documents
from moorage.simulator.world import World, full_registry

API_VERSION = "moorage.io/simulation-v1"
_FIRST = ("Namespace", "PriorityClass", "StorageClass", "Node")

_A_MOMENT = 0.001
"""Seconds that are lost in writing a time down."""

Watch = Callable[[Simulation], None]
"""Is given a run before anything has happened in it."""
RunWatch = Callable[[str, int, Simulation], None]
"""The same with the scheduler that is tried and the seed."""


def run_scenario(
    file: ScenarioFile, watch: RunWatch = lambda name, seed, run: None, label: str = ""
) -> Json:
    """All runs, in the order of schedulers and seeds, and their summary.

    `label`: pods are told apart by its value, too.
    """
    repetitions = file.scenario.repetitions
    schedulers = []
    placements: dict[tuple[str, int], PlacedPods] = {}

    def follow(name: str, seed: int, run: Simulation) -> None:
        placements[name, seed] = PlacedPods(run)
        watch(name, seed, run)

    for scheduler in file.scenario.schedulers:
        configuration(
            file, scheduler
        )  # What is wrong with any of them is told before the first run.
    for scheduler in file.scenario.schedulers:
        runs = []
        for seed in range(repetitions.seed, repetitions.seed + repetitions.count):
            run = play(file, scheduler, seed, partial(follow, scheduler.name, seed), label)
            runs.append({"seed": seed, **run})
        schedulers.append({"name": scheduler.name, "summary": summary(runs), "runs": runs})
    return {
        "apiVersion": API_VERSION,
        "kind": "SimulationResult",
        "schedulers": schedulers,
        "comparisons": [
            {**comparison, "decisions": _decisions(file, number, placements)}
            for number, comparison in enumerate(comparisons(schedulers), 1)
        ],
    }


def _decisions(
    file: ScenarioFile, number: int, placements: Mapping[tuple[str, int], PlacedPods]
) -> Json:
    """How the decisions of a scheduler differ from those of the first."""
    pair = file.scenario.schedulers[0], file.scenario.schedulers[number]
    names = (pair[0].name, pair[1].name)
    seeds, first = [], None
    for name, seed in placements:
        if name != names[0]:
            continue
        made = placements[names[0], seed].made, placements[names[1], seed].made
        where = parting(*made)
        seeds.append({"seed": seed, **counted_differences(*made)})
        if where is not None and first is None:

            def replay(which: int, at: float, watch: Watch, seed: int = seed) -> None:
                play_until(file, pair[which], seed, f"{at + _A_MOMENT:.6f}s", watch)

            first = {"seed": seed, **explained_parting(names, where, replay)}
    return {"seeds": seeds, "first": first}


def play_until(
    file: ScenarioFile, scheduler: ScenarioScheduler, seed: int, at: str, watch: Watch
) -> Json:
    """A run that ends at a time (a duration), if nothing ends it before."""
    shorter = copy(file)
    shorter.scenario = msgspec.structs.replace(file.scenario, stop=Stop(after=at))
    return play(shorter, scheduler, seed, watch)


def play(
    file: ScenarioFile,
    scheduler: ScenarioScheduler,
    seed: int,
    watch: Watch = lambda run: None,
    label: str = "",
) -> Json:
    """One run: the scenario with one of its schedulers and a seed."""
    scenario = file.scenario
    times = scenario.kubelets
    kubelets = KubeletOptions(
        start_seconds=file.seconds(times.start, "kubelets.start"),
        max_grace_seconds=file.seconds(times.grace, "kubelets.grace"),
        lease_seconds=0,
        seed=seed,
    )
    config, registry = configuration(file, scheduler), full_registry()
    there = [*_nodes(file), *_documents(file, scenario.cluster.manifests)]
    run = Simulation(
        config,
        registry,
        gates=file.gates,
        kubelets=kubelets,
        definitions=Definitions(there),
        seed=seed,
    )
    with closing(run):
        measures, prices = Measures(run, label), Prices(run)
        watch(run)
        recorded = _recorded(file, run)
        for body in there:
            run.come(body)
        groups = _groups(file, run, prices)
        if groups:
            Autoscaler(run, config, registry, groups, _rule(file))
        last = _plan_arrivals(file, run, seed)
        run.why_stop = partial(_why_stop, run, scenario.stop, last)
        NodeEvents(run, file, groups, seed).plan()
        ended = run.play(file.seconds(scenario.stop.after, "stop.after"))
        if run.faults:
            raise InputError(f"a plugin fails: {run.faults[0].message}")
        return {
            **measures.result(ended),
            **prices.result(),
            "fewestNodes": fewest_nodes(run, file.gates),
            **({} if recorded is None else {"recorded": recorded.result()}),
        }


def _recorded(file: ScenarioFile, run: Simulation) -> RecordedDecisions | None:
    """What is to be compared with recordings, if the scenario plays some."""
    traces = [one.trace for one in file.scenario.arrivals if one.trace is not None]
    paths = [file.path.parent / one.file for one in traces if one.layout == "recording"]
    if not paths:
        return None
    nodes = {uid: node for path in paths for uid, node in recorded_nodes(path).items()}
    return RecordedDecisions(run, nodes)


def _plan_arrivals(file: ScenarioFile, run: Simulation, seed: int) -> float:
    """Let everything come and go at its time; when the last of it comes."""
    last = 0.0
    for change in _arrivals(file, seed):
        run.plan(change.at, partial(_follow, run, change))
        if change.what == "create":
            last = max(last, change.at)
    return last


def _arrivals(file: ScenarioFile, seed: int) -> Iterator[TraceChange]:
    for number, arrival in enumerate(file.scenario.arrivals):
        start = file.seconds(arrival.at, f"arrivals[{number}].at")
        for body in _documents(file, arrival.manifests):
            yield came(start, body)
        # The same dice for every scheduler, and of its own for every generator.
        dice = Random(f"{seed}/{number}")
        if arrival.generate is not None:
            for one in generated(file, arrival.generate, dice):
                for body in one.objects:
                    yield came(start + one.at, body)
                    if one.gone is not None:
                        yield went(start + one.gone, body)
        if arrival.trace is not None:
            for change in trace_changes(file, arrival.trace):
                yield change._replace(at=start + change.at)


def _follow(run: Simulation, change: TraceChange) -> None:
    """What was planned, or happened in the trace, happens now."""
    if change.only_told:
        gone = change.what == "delete"
        run.tell(change.object if gone else None, None if gone else change.object)
    elif change.what == "create":
        run.come(change.object)
    elif change.what == "patch":
        run.change(change.object)
    elif change.object["kind"] == "Node":
        run.fail(change.object["metadata"]["name"])
    else:
        run.go(change.object)


def _why_stop(run: Simulation, stop: Stop, last: float) -> str:
    """Why the scenario's end is reached; `last` is when the last object comes."""
    if stop.pending is not None and len(run.pending) > stop.pending:
        return f"more than {stop.pending} pods waited for a node"
    if stop.finished and run.elapsed >= last:
        pods = run.api.cluster.all("Pod")
        if pods and all(map(is_finished, pods)):
            return "all pods had finished"
    return ""


def configuration(file: ScenarioFile, scheduler: ScenarioScheduler) -> KubeSchedulerConfiguration:
    """The configuration of a scheduler: in the scenario, in a file, or the defaults."""
    if not scheduler.config:
        return default_config(file.gates)
    field = f"schedulers[{file.scenario.schedulers.index(scheduler)}].config"
    if isinstance(scheduler.config, dict):
        source, text = file.place(field), json.dumps(scheduler.config).encode()
    else:
        source = file.file(scheduler.config)
        try:
            text = Path(source).read_bytes()
        except OSError as error:
            file.refuse(field, f"{source} cannot be read: {error.strerror or error}")
    config = load_config(text, source, file.gates)
    try:
        # Whether there are such plugins, and what they make of their arguments.
        World(config, registry=full_registry(), gates=file.gates)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    return config


def _nodes(file: ScenarioFile) -> Iterator[Json]:
    """Of the shapes; those of one name are numbered through."""
    numbers: Counter[str] = Counter()
    for i, text in enumerate(file.scenario.cluster.nodes):
        shape = file.shape(text, f"cluster.nodes[{i}]")
        for _ in range(shape.nodes or 0):
            yield grouped_node(shape, numbers[shape.name])
            numbers[shape.name] += 1


def _groups(file: ScenarioFile, run: Simulation, prices: Prices) -> Sequence[ScalingGroup]:
    """The node groups, with the nodes that they have at least."""
    groups = []
    for i, given in enumerate(file.scenario.cluster.node_groups):
        field = f"cluster.nodeGroups[{i}]"
        shape = file.shape(given.shape, f"{field}.shape")._replace(name=given.name)
        start = file.seconds(given.start_up, f"{field}.startUp")
        group = ScalingGroup(run, prices, GroupLimits(shape, given.min, given.max, start))
        group.fill()
        groups.append(group)
    return groups


def _rule(file: ScenarioFile) -> ScalingRule:
    given = file.scenario.autoscaler
    return ScalingRule(
        every=file.seconds(given.every, "autoscaler.every"),
        below=given.below,
        unneeded=file.seconds(given.unneeded, "autoscaler.unneeded"),
        after_start=file.seconds(given.after_start, "autoscaler.afterStart"),
    )


def _documents(file: ScenarioFile, names: tuple[str, ...]) -> list[Json]:
    """Manifests, checked, those that others need first."""
    if not names:
        return []
    paths = [file.file(name) for name in names]
    load_manifests(paths, None)
    documents = [dict(document) for document, _ in read_documents(paths, None)]
    rank = {kind: place for place, kind in enumerate(_FIRST)}
    return sorted(documents, key=lambda document: rank.get(document["kind"], len(_FIRST)))
