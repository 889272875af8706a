"""Scenarios as files: what their form cannot express is checked."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage.apiserver.errors import ApiStatusError
from moorage.apiserver.selection import parse_labels
from moorage.config import FeatureGates
from moorage.errors import ConfigError, InputError
from moorage.model.quantity import parse_milli
from moorage.scenarios.scenario import (
    IN_SHARES,
    WITH_NODES,
    Arrival,
    Drawn,
    Generator,
    Rate,
    Scenario,
    ScenarioCluster,
    ScenarioEvent,
    TraceOfPods,
)
from moorage.scenarios.specimens import check_generator, check_shape
from moorage.scenarios.yaml_file import YamlFile
from moorage.simulator.node_shapes import NodeShape, parse_shape

MOST_REPETITIONS = 10_000
_MOST_GENERATED = 500_000
"""So many objects a generator makes on average, at most."""
_LARGEST_SIGMA = 10
_LARGEST_WEIGHT = 1_000_000
_MOST_NODES = 100_000


class ScenarioFile(YamlFile[Scenario]):
    """A scenario, and where each of its fields stands."""

    def __init__(self, path: Path, plain: Any = None) -> None:
        """Read it, or take its plain values; `InputError` says what is wrong, and where."""
        super().__init__(path, Scenario, plain)
        self.scenario = self.document
        try:
            self.gates = FeatureGates(self.scenario.feature_gates)
        except ConfigError as error:
            self.refuse("featureGates", str(error))
        self._check()

    def _check(self) -> None:
        """What types cannot express."""
        scenario = self.scenario
        self._check_groups(scenario.cluster)
        for i, arrival in enumerate(scenario.arrivals):
            self._check_arrival(arrival, f"arrivals[{i}]")
        for i, event in enumerate(scenario.events):
            self._check_event(event, f"events[{i}]")
        names = [one.name for one in scenario.schedulers]
        if not names or len(set(names)) < len(names):
            self.refuse("schedulers", "expected at least one, and each name once")
        for i, name in enumerate(names):
            if not name.strip() or not name.isprintable():
                self.refuse(f"schedulers[{i}].name", f"expected a name, got {name!r}")
        if not 1 <= scenario.repetitions.count <= MOST_REPETITIONS:
            self.refuse("repetitions.count", f"expected a number from 1 to {MOST_REPETITIONS:,}")
        self.seconds(scenario.stop.after, "stop.after")
        if (scenario.stop.pending or 0) < 0:
            self.refuse("stop.pending", "expected 0 or more")
        self.seconds(scenario.kubelets.start, "kubelets.start")
        self.seconds(scenario.kubelets.grace, "kubelets.grace")

    def _check_event(self, event: ScenarioEvent, field: str) -> None:
        for name in ("at", "gone", "notice"):
            self.seconds(getattr(event, name), f"{field}.{name}")
        if (event.what in ("taint", "untaint")) != bool(_taint_parts(event.taint)):
            self.refuse(f"{field}.taint", "expected key=value:Effect where what is a taint")
        if sum(map(bool, (event.node, event.group, event.selector))) != 1:
            self.refuse(field, "expected one of node, group and selector")
        if event.group and event.group not in self._group_names():
            self.refuse(f"{field}.group", f"expected a node group or a shape, got {event.group!r}")
        try:
            parse_labels(event.selector)
        except ApiStatusError as error:
            self.refuse(f"{field}.selector", f"expected labels such as a=b,c!=d: {error}")
        if (event.what == "price") != (event.price is not None) or (event.price or 0) < 0:
            self.refuse(f"{field}.price", "expected a number of 0 or more where what is price")
        for name, count in (("count", event.count), ("atOnce", event.at_once)):
            if count is not None and not 1 <= count <= _MOST_NODES:
                self.refuse(f"{field}.{name}", f"expected a number from 1 to {_MOST_NODES:,}")

    def _group_names(self) -> list[str]:
        cluster = self.scenario.cluster
        shapes = [self.shape(text, f"cluster.nodes[{i}]") for i, text in enumerate(cluster.nodes)]
        return [*(one.name for one in shapes), *(group.name for group in cluster.node_groups)]

    def shape(self, text: str, field: str) -> NodeShape:
        """What nodes are made of; one, if it says no number."""
        try:
            shape = parse_shape(text)
        except InputError as error:
            self.refuse(field, str(error).removeprefix("--shape "))
        if (shape.nodes or 0) > _MOST_NODES:
            self.refuse(field, f"expected at most {_MOST_NODES:,} nodes, got {shape.nodes:,}")
        check_shape(shape, self.place(field))
        return shape if shape.nodes is not None else shape._replace(nodes=1)

    def _check_groups(self, cluster: ScenarioCluster) -> None:
        names = [
            self.shape(text, f"cluster.nodes[{i}]").name for i, text in enumerate(cluster.nodes)
        ]
        for i, group in enumerate(cluster.node_groups):
            field = f"cluster.nodeGroups[{i}]"
            shape = self.shape(group.shape, f"{field}.shape")
            check_shape(shape._replace(name=group.name), self.place(f"{field}.name"))
            if group.name in names:
                self.refuse(f"{field}.name", "expected a name that no shape or other group has")
            names.append(group.name)
            if not 0 <= group.min <= group.max:
                self.refuse(f"{field}.min", "expected 0 or more, and at most max")
            if group.max > _MOST_NODES:
                self.refuse(f"{field}.max", f"expected at most {_MOST_NODES:,}")
            self.seconds(group.start_up, f"{field}.startUp")
        rule = self.scenario.autoscaler
        if not self.seconds(rule.every, "autoscaler.every"):
            self.refuse("autoscaler.every", "expected more than 0s")
        self.seconds(rule.unneeded, "autoscaler.unneeded")
        self.seconds(rule.after_start, "autoscaler.afterStart")
        if not 0 <= rule.below <= 1:
            self.refuse("autoscaler.below", "expected a number from 0 to 1")

    def _check_arrival(self, arrival: Arrival, field: str) -> None:
        self.seconds(arrival.at, f"{field}.at")
        given = (bool(arrival.manifests), arrival.generate is not None, arrival.trace is not None)
        if sum(given) != 1:
            self.refuse(field, "expected one of manifests, generate and trace")
        if arrival.generate is not None:
            self._check_generator(arrival.generate, f"{field}.generate")
        if arrival.trace is not None:
            self._check_trace(arrival.trace, f"{field}.trace")

    def _check_trace(self, trace: TraceOfPods, field: str) -> None:
        if trace.nodes and trace.layout not in WITH_NODES:
            self.refuse(f"{field}.nodes", f"expected none: {trace.layout} has no file of nodes")
        if trace.types and trace.layout != "azure":
            self.refuse(f"{field}.types", "expected none: it is for azure")
        if set(trace.machine) != ({"cpu", "memory"} if trace.layout in IN_SHARES else set()):
            what = f"expected cpu and memory for {', '.join(IN_SHARES)}, and nothing for others"
            self.refuse(f"{field}.machine", what)
        self.check_requests(trace.machine, f"{field}.machine")
        if trace.until:
            self.seconds(trace.until, f"{field}.until")
        if not 0 < trace.sample <= 1:
            self.refuse(f"{field}.sample", "expected a number above 0, at most 1")

    def _check_generator(self, given: Generator, field: str) -> None:
        self._check_rate(given.rate, f"{field}.rate")
        self._check_time(given, field)
        if bool(given.sizes) == (given.like is not None):
            self.refuse(field, "expected one of sizes and like")
        if given.like is not None and (given.run_time or given.template or given.objects):
            self.refuse(field, "expected no runTime, template or objects beside like")
        if given.like is not None:
            self._check_trace(given.like, f"{field}.like")
        for i, size in enumerate(given.sizes):
            if not 0 < size.weight <= _LARGEST_WEIGHT:
                what = f"expected a number above 0, at most {_LARGEST_WEIGHT:,}"
                self.refuse(f"{field}.sizes[{i}].weight", what)
            self._check_size(size.requests, f"{field}.sizes[{i}].requests")
        self._check_template(given.template, f"{field}.template")
        for i, obj in enumerate(given.objects):
            self._check_object(obj, f"{field}.objects[{i}]")
        for times, name in ((given.run_time, "runTime"), (given.stay, "stay")):
            if times is not None:
                self._check_distribution(times, f"{field}.{name}", self.seconds)
        check_generator(given, self.place(field))

    def _check_time(self, given: Generator, field: str) -> None:
        start = self.seconds(given.start, f"{field}.start")
        until = self.seconds(given.until, f"{field}.until")
        if until < start:
            self.refuse(f"{field}.until", f"expected no less than start ({given.start})")
        per_second = given.rate.per_hour * given.rate.burst / 3600
        if per_second * (until - start) > _MOST_GENERATED:
            what = f"expected at most {_MOST_GENERATED:,} objects until {given.until}"
            self.refuse(f"{field}.rate", what)

    def _check_template(self, template: Mapping[str, Any], field: str) -> None:
        unknown = template.keys() - {"metadata", "spec"}
        if unknown:
            self.refuse(field, f"expected metadata and spec, got {min(unknown)}")
        self._check_parts(template, field)

    def _check_object(self, obj: Mapping[str, Any], field: str) -> None:
        self._check_parts(obj, field)
        name = (obj.get("metadata") or {}).get("name")
        if not (obj.get("apiVersion") and obj.get("kind") and "$(NAME)" in str(name)):
            self.refuse(field, "expected apiVersion, kind and a metadata.name with $(NAME)")

    def _check_parts(self, given: Mapping[str, Any], field: str) -> None:
        """Are metadata, spec and containers what they are in every manifest?"""
        for name in ("metadata", "spec"):
            if not isinstance(given.get(name) or {}, dict):
                self.refuse(f"{field}.{name}", f"expected a mapping, got {given[name]!r}")
        containers = (given.get("spec") or {}).get("containers") or []
        if not (isinstance(containers, list) and all(isinstance(one, dict) for one in containers)):
            self.refuse(f"{field}.spec.containers", "expected a list of containers")

    def _check_rate(self, rate: Rate, field: str) -> None:
        if rate.per_hour <= 0:
            self.refuse(f"{field}.perHour", "expected a number above 0")
        if not 0 <= rate.swing <= 1:
            self.refuse(f"{field}.swing", "expected a number from 0 to 1")
        if rate.burst < 1:
            self.refuse(f"{field}.burst", "expected at least 1")
        self.seconds(rate.peak, f"{field}.peak")
        self.seconds(rate.within, f"{field}.within")
        if not self.seconds(rate.period, f"{field}.period"):
            self.refuse(f"{field}.period", "expected more than 0s")

    def _check_size(self, requests: Mapping[str, str | Drawn], field: str) -> None:
        for name, amount in requests.items():
            if isinstance(amount, Drawn):
                self._check_distribution(amount, f"{field}.{name}", self._amount)
            else:
                self._amount(amount, f"{field}.{name}")

    def check_requests(self, requests: Mapping[str, str], field: str) -> None:
        """Are these amounts of resources?"""
        for name, text in requests.items():
            self._amount(text, f"{field}.{name}")

    def _amount(self, text: str, field: str) -> int:
        try:
            amount = parse_milli(text)
        except ValueError:
            amount = -1
        if amount < 0:
            self.refuse(field, f"expected a quantity such as 500m, got {text!r}")
        return amount

    def _check_distribution(
        self, given: Drawn, field: str, read: Callable[[str, str], float]
    ) -> None:
        """`read` gives the number of a text, or refuses it in a field."""
        texts = {
            "constant": (given.constant,) if given.constant else (),
            "exponential": (given.exponential,) if given.exponential else (),
            "uniform": given.uniform or (),
            "lognormal": given.lognormal[:1] if given.lognormal else (),
        }
        if sum(map(bool, texts.values())) != 1:
            self.refuse(field, f"expected one of {', '.join(texts)}")
        for name, found in texts.items():
            amounts = [read(text, f"{field}.{name}") for text in found]
            if amounts != sorted(amounts):
                self.refuse(f"{field}.{name}", "expected two amounts, the smaller first")
        if given.lognormal is not None and not 0 <= given.lognormal[1] <= _LARGEST_SIGMA:
            self.refuse(f"{field}.lognormal[1]", f"expected a number from 0 to {_LARGEST_SIGMA}")


def parse_taint(text: str) -> dict[str, str]:
    """A taint as kubectl writes it."""
    key, value, effect = _taint_parts(text)
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _taint_parts(text: str) -> Sequence[str]:
    found = re.fullmatch(r"([\w./-]+)(?:=([\w.-]*))?:(NoSchedule|PreferNoSchedule|NoExecute)", text)
    return () if found is None else (found[1], found[2] or "", found[3])
