"""Runs of a scenario: each scheduler with each seed, and what they have in common.

Owns the way from a scenario to runs, and the summary over repetitions.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from statistics import mean, stdev

from moorage.config import KubeSchedulerConfiguration, default_config, load_config
from moorage.controllers.kubelet import KubeletOptions
from moorage.controllers.objects import Json
from moorage.errors import ApiError, InputError
from moorage.simulator.arrivals import poisson_pods, trace_pods
from moorage.simulator.manifests import load_manifests, read_documents
from moorage.simulator.measures import Measures
from moorage.simulator.node_shapes import parse_shape, shaped_nodes
from moorage.simulator.scenario import ScenarioEvent, ScenarioFile, parse_taint
from moorage.simulator.simulation import Simulation
from moorage.simulator.world import full_registry

API_VERSION = "moorage.io/simulation-v1"
_FIRST = ("Namespace", "PriorityClass", "StorageClass", "Node")

Progress = Callable[[str, int], None]
"""Is told which scheduler is tried with which seed."""


def run_scenario(file: ScenarioFile, progress: Progress = lambda name, seed: None) -> Json:
    """All runs, in the order of schedulers and seeds, and their summary."""
    repetitions = file.scenario.repetitions
    schedulers = []
    for scheduler in file.scenario.schedulers:
        runs = []
        for seed in range(repetitions.seed, repetitions.seed + repetitions.count):
            progress(scheduler.name, seed)
            runs.append({"seed": seed, **_run(file, scheduler.config, seed)})
        schedulers.append({"name": scheduler.name, "summary": summary(runs), "runs": runs})
    return {"apiVersion": API_VERSION, "kind": "SimulationResult", "schedulers": schedulers}


def _run(file: ScenarioFile, config: str, seed: int) -> Json:
    scenario = file.scenario
    times = scenario.kubelets
    kubelets = KubeletOptions(
        start_seconds=file.seconds(times.start, "kubelets.start"),
        max_grace_seconds=file.seconds(times.grace, "kubelets.grace"),
        lease_seconds=0,
        seed=seed,
    )
    run = Simulation(_configuration(file, config), full_registry(), kubelets=kubelets, seed=seed)
    measures = Measures(run)
    nodes = _nodes(file)
    for body in (*nodes.values(), *_documents(file, scenario.cluster.manifests)):
        _create(run, body)
    for number, arrival in enumerate(scenario.arrivals):
        at = file.seconds(arrival.at, f"arrivals[{number}].at")
        for body in _documents(file, arrival.manifests):
            run.plan(at, partial(_create, run, body))
        # The same dice for every scheduler, and of its own for every generator.
        dice = Random(f"{seed}/{number}")
        if arrival.poisson is not None:
            for pod in poisson_pods(arrival.poisson, dice):
                run.plan(at + pod.at, partial(_create, run, pod.manifest))
        if arrival.trace is not None:
            for pod in trace_pods(file, arrival.trace.file):
                run.plan(at + pod.at, partial(_create, run, pod.manifest))
    for number, event in enumerate(scenario.events):
        at = file.seconds(event.at, f"events[{number}].at")
        run.plan(at, partial(_befall, run, file, number, event, nodes))
    ended = run.play(file.seconds(scenario.stop.after, "stop.after"))
    if run.faults:
        raise InputError(f"a plugin fails: {run.faults[0].message}")
    found = measures.result(ended)
    run.close()
    return found


def _configuration(file: ScenarioFile, name: str) -> KubeSchedulerConfiguration:
    if not name:
        return default_config()
    path = file.file(name)
    try:
        with open(path, "rb") as stream:
            config = load_config(stream.read(), path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    if config.extenders:
        raise InputError(f"{path}: extenders: expected none, there is nobody to ask")
    return config


def _nodes(file: ScenarioFile) -> Mapping[str, Json]:
    """By name, also for those that are repaired."""
    shapes = []
    for number, text in enumerate(file.scenario.cluster.nodes):
        try:
            shape = parse_shape(text)
        except InputError as error:
            file.refuse(f"cluster.nodes[{number}]", str(error).removeprefix("--shape "))
        shapes.append(shape if shape.nodes is not None else shape._replace(nodes=1))
    return {node["metadata"]["name"]: node for node in shaped_nodes(shapes)}


def _documents(file: ScenarioFile, names: tuple[str, ...]) -> list[Json]:
    """Manifests, checked, those that others need first."""
    if not names:
        return []
    paths = [file.file(name) for name in names]
    load_manifests(paths, None)
    documents = [dict(document) for document, _ in read_documents(paths, None)]
    rank = {kind: place for place, kind in enumerate(_FIRST)}
    return sorted(documents, key=lambda document: rank.get(document["kind"], len(_FIRST)))


def _create(run: Simulation, body: Json) -> None:
    try:
        run.api.create(body)
    except ApiError as error:
        raise InputError(f"at {run.elapsed:.0f} s: {error}") from None


def _befall(
    run: Simulation,
    file: ScenarioFile,
    number: int,
    event: ScenarioEvent,
    nodes: Mapping[str, Json],
) -> None:
    name = event.node
    there = run.api.cluster.get("Node", "", name) is not None
    if event.what == "repair":
        if name not in nodes or there:
            file.refuse(f"events[{number}].node", f"expected a node of a shape that failed: {name}")
        _create(run, nodes[name])
        return
    if not there:
        file.refuse(f"events[{number}].node", f"expected a node that is there then, got {name}")
    match event.what:
        case "fail":
            run.fail(name)
        case "drain":
            run.drain(name)
        case "cordon" | "uncordon":
            run.cordon(name, on=event.what == "cordon")
        case _:
            run.taint(name, parse_taint(event.taint), on=event.what == "taint")


_SUMMED_UP: Mapping[str, Callable[[Json], float | None]] = {
    "placed": lambda run: run["pods"]["placed"],
    "pending": lambda run: run["pods"]["pending"],
    "preempted": lambda run: run["pods"]["preempted"],
    "waitingP50": lambda run: run["waitingSeconds"]["p50"],
    "waitingP90": lambda run: run["waitingSeconds"]["p90"],
    "waitingP99": lambda run: run["waitingSeconds"]["p99"],
    "completionP50": lambda run: run["completionSeconds"]["p50"],
    "makespan": lambda run: run["makespanSeconds"],
    "cpuMean": lambda run: run["allocation"]["cpu"]["mean"],
    "memoryMean": lambda run: run["allocation"]["memory"]["mean"],
    "imbalance": lambda run: run["imbalance"],
}


def summary(runs: list[Json]) -> Json:
    """Each measure's mean over the runs, and half the width of its 95 % confidence interval."""
    found: Json = {}
    for name, take in _SUMMED_UP.items():
        values = [value for run in runs if (value := take(run)) is not None]
        if not values:
            found[name] = None
            continue
        spread = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        found[name] = {"mean": round(mean(values), 6), "plusMinus": round(spread, 6)}
    return found
