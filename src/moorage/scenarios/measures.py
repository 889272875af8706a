"""How well a run went: all measures of it, as they stand in the result."""

from collections.abc import Mapping

from moorage.cluster.derived import Floats
from moorage.controllers.objects import Json
from moorage.scenarios.quality.groups import counts_and_times, group_result, grouped
from moorage.scenarios.quality.lives import LivedIn, Lives
from moorage.scenarios.quality.nodes import NodeTables
from moorage.scenarios.quality.statistics import jain, short
from moorage.scenarios.quality.timelines import Timelines


class Measures:
    """Follows a simulation, and says in the end how it went."""

    def __init__(self, run: LivedIn, label: str = "") -> None:
        """`label`: pods are told apart by its value, too."""
        self._run = run
        self._label = label
        self.lives = Lives(run)

    def result(self, ended: str) -> Json:
        """All measures of the run."""
        times = Timelines(self.lives, self._run.elapsed)
        nodes = NodeTables(times)
        skew = nodes.zone_skew()
        groups = self._groups(times)
        finished = [pod.finished for pod in times.pods if pod.finished is not None]
        shares = [one["dominantShare"] for one in groups["namespaces"].values()]
        fairness = jain(shares)
        return {
            "ended": ended,
            "seconds": short(times.span),
            **counts_and_times(times.pods),
            "makespanSeconds": short(max(finished, default=0.0)),
            "allocation": {
                name: {
                    "mean": short(times.mean_share(name, asked)),
                    "peak": short(times.peak_share(name, asked)),
                }
                for name, asked in times.asked.items()
            },
            "utilisation": {
                name: {"mean": short(times.mean_share(name, used))}
                for name, used in times.used.items()
            },
            "imbalance": _means(nodes.imbalance),
            "zoneSkew": _means(skew),
            "fragmentation": nodes.fragmentation(),
            "fairness": None if fairness is None else short(fairness),
            **groups,
            "samples": _samples(times, nodes, skew),
        }

    def _groups(self, times: Timelines) -> Json:
        keys = {
            "namespaces": lambda pod: pod.namespace,
            "priorityClasses": lambda pod: pod.priority_class,
        }
        if self._label:
            keys["labels"] = lambda pod: pod.labels.get(self._label, "")
        return {
            kind: {
                name: group_result(times, pods) for name, pods in grouped(times.pods, key).items()
            }
            for kind, key in keys.items()
        }


def _means(values: Mapping[str, Floats]) -> Json:
    return {name: short(float(each.mean())) for name, each in values.items()}


def _samples(times: Timelines, nodes: NodeTables, skew: Mapping[str, Floats]) -> Json:
    """The course of things: of each measure a list, with one value for each moment."""
    moments = nodes.moments
    return {
        "seconds": _listed(moments),
        "pending": times.waiting(moments).tolist(),
        "allocation": {
            name: _listed(times.shares(name, asked, moments)) for name, asked in times.asked.items()
        },
        "utilisation": {
            name: _listed(times.shares(name, used, moments)) for name, used in times.used.items()
        },
        "imbalance": {name: _listed(values) for name, values in nodes.imbalance.items()},
        "zoneSkew": {name: _listed(values) for name, values in skew.items()},
    }


def _listed(values: Floats) -> list[float]:
    return [short(value) for value in values.tolist()]
