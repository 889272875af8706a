"""Extenders: every verb, answers that refuse, and extenders that fail."""

from contextlib import closing

from e2e.client import Api, Json
from e2e.extender import Answer, Extender, extender
from e2e.objects import priority_class
from e2e.trial import Trial

_ONE_PROFILE = [{"schedulerName": "default-scheduler"}]


def filters(trial: Trial) -> Json:
    """Nodes refused for a reason, in a way that preemption could mend or not."""
    for name in ("n1", "n2", "n3"):
        trial.add_node(name)
    with extender() as asked:
        asked.answers["filter"] = _refuses({"n1": "too loud"}, {"n3": "too far"})
        _start(trial, asked, filterVerb="filter")
        trial.place("placed")
        asked.answers["filter"] = _refuses({"n1": "too loud", "n2": "too low"}, {"n3": "too far"})
        trial.add_pod("refused")
        trial.refused("refused")
        return {**trial.observe("placed", "refused"), "asked": sorted(set(asked.asked))}


def prioritizes(trial: Trial) -> Json:
    """Points of an extender outweigh those of the plugins."""
    trial.add_node("large", cpu="64")
    trial.add_node("small", cpu="2")
    with extender() as asked:
        asked.answers["prioritize"] = lambda _: [
            {"Host": "small", "Score": 10},
            {"Host": "large", "Score": 0},
        ]
        _start(trial, asked, prioritizeVerb="prioritize", weight=100)
        trial.place("placed", cpu="1")
        return {**trial.observe("placed"), "asked": asked.asked}


def binds(trial: Trial) -> Json:
    """The extender binds the pods that ask for what it manages, and only those."""
    trial.add_node("n1", resources={"example.com/device": "2"})
    with extender() as asked, closing(Api(trial.server.admin)) as api:

        def bind(body: Json) -> Json:
            api.bind(body["PodName"], body["PodNamespace"], body["Node"])
            return {"Error": ""}

        asked.answers["bind"] = bind
        managed = [{"name": "example.com/device", "ignoredByScheduler": False}]
        _start(trial, asked, bindVerb="bind", managedResources=managed)
        trial.place("ours", resources={"example.com/device": "1"})
        trial.place("not-ours")
        return {**trial.observe("ours", "not-ours"), "asked": asked.asked}


def fails(trial: Trial) -> Json:
    """An extender that fails keeps pods pending; one that may be ignored does not."""
    trial.add_node("n1")
    with extender() as asked:
        _start(trial, asked, filterVerb="filter", ignorable=True)
        trial.place("ignores")
        trial.stop()
        _start(trial, asked, filterVerb="filter")
        trial.add_pod("waits")
        trial.refused("waits")
        failed = _without_port(trial.observe("waits"), asked)
        asked.answers["filter"] = lambda body: {"Error": "no opinion"}
        trial.refused("waits", attempts=2)
        asked.answers["filter"] = _refuses({}, {})
        trial.bound("waits")
        return {"failed": failed, "after": _without_port(trial.observe("ignores", "waits"), asked)}


def preempts(trial: Trial) -> Json:
    """The extender takes a node off the list of those where pods may be preempted."""
    trial.add(priority_class("high", 1000))
    for name in ("n1", "n2"):
        trial.add_node(name, cpu="2")
        trial.add_bound(f"on-{name}", name, cpu="2")
    with extender() as asked:

        def spare(body: Json) -> Json:
            victims = body["NodeNameToMetaVictims"]
            return {"NodeNameToMetaVictims": {"n2": victims["n2"]}}

        asked.answers |= {"preempt": spare, "filter": _refuses({}, {})}
        _start(trial, asked, preemptVerb="preempt", filterVerb="filter")
        trial.add_pod("preemptor", cpu="1", priorityClassName="high")
        trial.nominated("preemptor")
        trial.terminating("on-n2")
        trial.refused("preemptor")
        during = trial.observe("preemptor", "on-n1", "on-n2")
        trial.delete_pod("on-n2")
        trial.bound("preemptor")
        return {"during": during, **trial.observe("preemptor"), "asked": sorted(set(asked.asked))}


def _start(trial: Trial, asked: Extender, **fields: object) -> None:
    trial.start({"profiles": _ONE_PROFILE, "extenders": [asked.config(**fields)]})


def _refuses(failed: dict[str, str], unresolvable: dict[str, str]) -> Answer:
    def answer(body: Json) -> Json:
        left = [name for name in body["NodeNames"] if name not in failed | unresolvable]
        return {
            "NodeNames": left,
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": unresolvable,
        }

    return answer


def _without_port(seen: Json, asked: Extender) -> Json:
    for observed in seen.values():
        observed["events"] = [line.replace(asked.url, "<url>") for line in observed["events"]]
        for condition in observed["conditions"].values():
            if "message" in condition:
                condition["message"] = condition["message"].replace(asked.url, "<url>")
    return seen


SCENARIOS = (filters, prioritizes, binds, fails, preempts)
