"""Extenders: every verb, answers that refuse, and extenders that fail."""

import json
import threading
import time
from contextlib import closing
from functools import partial

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
        # Seen before the stop: events are written some time after the binding.
        ignores = trial.observe("ignores")
        trial.stop()
        _start(trial, asked, filterVerb="filter")
        trial.add_pod("waits")
        trial.refused("waits")
        failed = _without_port(trial.observe("waits"), asked)
        asked.answers["filter"] = lambda body: {"Error": "no opinion"}
        trial.wait("the error to be told", lambda: "no opinion" in _told(trial, "waits"))
        told = _without_port(trial.observe("waits"), asked)
        asked.answers["filter"] = _refuses({}, {})
        trial.bound("waits")
        after = _without_port(trial.observe("waits"), asked)
        return {**ignores, "failed": failed, "told": told, "after": after}


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
        trial.preempted("on-n2")
        trial.refused("preemptor")
        during = trial.observe("preemptor", "on-n1", "on-n2")
        trial.delete_pod("on-n2")
        trial.bound("preemptor")
        return {"during": during, **trial.observe("preemptor"), "asked": sorted(set(asked.asked))}


def answers_nonsense(trial: Trial) -> Json:
    """Answers that cannot be read, or say what cannot be: each keeps a pod waiting."""
    trial.add_node("n1")
    seen = {}
    with extender() as asked:
        _start(trial, asked, filterVerb="filter")
        for i, nonsense in enumerate(_NONSENSE):
            asked.answers["filter"] = _always(nonsense)
            name = f"pod-{i}"
            trial.add_pod(name)
            trial.refused(name)
            shown = _without_port(trial.observe(name), asked)[name]["conditions"]
            seen[nonsense.decode()] = shown["PodScheduled"]["message"]
            trial.delete_pod(name)
            trial.gone(name)
    return seen


def is_slow_or_gone(trial: Trial) -> Json:
    """An extender that takes too long, and one where nobody listens."""
    trial.add_node("n1")
    with extender() as asked:
        asked.answers["filter"] = _late
        _start(trial, asked, filterVerb="filter", httpTimeout="300ms")
        trial.add_pod("slow")
        trial.refused("slow")
        slow = _without_port(trial.observe("slow"), asked)
        trial.delete_pod("slow")
        trial.stop()
    _start(trial, asked, filterVerb="filter")
    trial.add_pod("gone")
    trial.refused("gone")
    gone = _without_port(trial.observe("gone"), asked)
    return {**slow, **gone}


def sees_whole_objects(trial: Trial) -> Json:
    """Without a cache of its own it is sent objects; those it returns count as empty nodes."""
    trial.add_node("large", cpu="8", labels={"size": "large"})
    trial.add_node("small", cpu="2")
    trial.add_bound("busy", "large", cpu="7")
    told: list[Json] = []
    with extender() as asked:

        def pass_on(body: Json) -> Json:
            told.append({"Pod": _lasting(body["Pod"]), "Nodes": _lasting(body["Nodes"])})
            return {"Nodes": body["Nodes"]}

        asked.answers["filter"] = pass_on
        _start(trial, asked, filterVerb="filter", nodeCacheCapable=False)
        trial.place("placed", cpu="1", labels={"app": "web"})
        items = told[0]["Nodes"]["items"]
        items.sort(key=lambda item: str(item["metadata"]["name"]))
        return {**trial.observe("placed"), "told": _plain(trial, told[0])}


def weighs(trial: Trial) -> Json:
    """Points of several extenders add up; one that fails to give any is not missed."""
    for name in ("n1", "n2", "n3"):
        trial.add_node(name)
    with extender() as one, extender() as two, extender() as broken:
        one.answers["prioritize"] = lambda _: [
            {"Host": "n1", "Score": 10},
            {"Host": "n2", "Score": 7},
            {"Host": "elsewhere", "Score": 10},
        ]
        two.answers["prioritize"] = lambda _: [{"host": "n2", "score": 4}]
        _start_all(
            trial,
            one.config(prioritizeVerb="prioritize", weight=3),
            two.config(prioritizeVerb="prioritize", weight=3),
            broken.config(prioritizeVerb="prioritize", weight=100),
        )
        trial.place("placed")
        return trial.observe("placed")


def binding_fails(trial: Trial) -> Json:
    """The extender cannot bind; only one that may be ignored leaves it to the scheduler."""
    trial.add_node("n1")
    with extender() as asked:
        asked.answers["bind"] = lambda _: {"Error": "not today"}
        _start(trial, asked, bindVerb="bind")
        trial.add_pod("waits")
        trial.refused("waits")
        waits = _without_port(trial.observe("waits"), asked)
        trial.delete_pod("waits")
        trial.stop()
        _start(trial, asked, bindVerb="bind", ignorable=True)
        trial.place("bound")
        return {**waits, **trial.observe("bound")}


def refuses_victims(trial: Trial) -> Json:
    """Answers about victims: none left, pods that are not there, nodes without victims."""
    trial.add(priority_class("high", 1000))
    for name in ("n1", "n2"):
        trial.add_node(name, cpu="2")
        trial.add_bound(f"on-{name}", name, cpu="2")
    answers: dict[str, Json] = {
        "none": {},
        "stranger": {"n1": {"Pods": [{"UID": "no-such-pod"}], "NumPDBViolations": 0}},
        "empty": {"n1": {"Pods": []}},
        "nowhere": {"n9": {"Pods": [{"UID": "no-such-pod"}]}},
    }
    seen: Json = {}
    with extender() as asked:
        _start(trial, asked, preemptVerb="preempt", nodeCacheCapable=False)
        for name, answer in answers.items():
            asked.answers["preempt"] = _always({"NodeNameToMetaVictims": answer})
            trial.add_pod(name, cpu="1", priorityClassName="high")
            trial.refused(name)
            seen |= _without_port(trial.observe(name), asked)
            trial.delete_pod(name)
            trial.gone(name)

        def take_second(body: Json) -> Json:
            uid = body["NodeNameToVictims"]["n2"]["Pods"][0]["metadata"]["uid"]
            return {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": uid}]}}}

        asked.answers["preempt"] = take_second
        trial.add_pod("preemptor", cpu="1", priorityClassName="high")
        trial.nominated("preemptor")
        trial.preempted("on-n2")
        trial.refused("preemptor")
        return {**seen, **trial.observe("preemptor"), "asked": sorted(set(asked.asked))}


def refusals_and_preemption(trial: Trial) -> Json:
    """What an extender refuses is looked at for preemption unless it says that this is no use."""
    trial.add(priority_class("high", 1000))
    for name in ("n1", "n2", "n3"):
        trial.add_node(name)
    trial.add_bound("lesser", "n1", cpu="1")
    with extender() as asked:
        asked.answers["filter"] = _refuses({"n2": "too low"}, {"n1": "too far", "n3": "too far"})
        _start(trial, asked, filterVerb="filter")
        trial.add_pod("refused", priorityClassName="high")
        trial.refused("refused")
        refused = trial.observe("refused")
        # Else it would be tried again, with the next answer.
        trial.delete_pod("refused")
        trial.gone("refused")
        asked.answers["filter"] = lambda _: {"FailedNodes": {"n1": "too low", "n9": "who?"}}
        trial.add_pod("strangers", priorityClassName="high")
        trial.refused("strangers")
        return {**refused, **trial.observe("strangers")}


def wakes_on_any_event(trial: Trial) -> Json:
    """A pod that an extender refused is tried again after events that plugins would not heed."""
    trial.add_node("n1")
    with extender() as asked:
        asked.answers["filter"] = _refuses({"n1": "too loud"}, {})
        _start(trial, asked, filterVerb="filter")
        trial.add_pod("refused")
        trial.refused("refused")
        asked.answers["filter"] = _refuses({}, {})
        trial.change_node("n1", {"metadata": {"annotations": {"quiet": "yes"}}})
        trial.bound("refused")
        return trial.observe("refused")


def times_out(trial: Trial) -> Json:
    """Too slow with an answer: its pods wait, others go on; where it may be ignored, none waits."""
    trial.add_node("n1", resources={"example.com/device": "9"})
    ours = {"example.com/device": "1"}
    fields: Json = {
        "httpTimeout": "1s",
        "managedResources": [{"name": "example.com/device", "ignoredByScheduler": False}],
    }
    seen: Json = {}
    with extender() as asked:
        asked.answers |= dict.fromkeys(("filter", "prioritize", "bind"), _very_late)
        for verb in ("filter", "bind"):
            fields["ignorable"] = False
            _start(trial, asked, **{f"{verb}Verb": verb}, **fields)
            trial.add_pod(f"{verb}-waits", resources=ours)
            trial.refused(f"{verb}-waits")
            trial.place(f"{verb}-other")
            seen |= _without_port(trial.observe(f"{verb}-waits", f"{verb}-other"), asked)
            trial.delete_pod(f"{verb}-waits")
            trial.stop()
            fields["ignorable"] = True
            _start(trial, asked, **{f"{verb}Verb": verb}, **fields)
            trial.place(f"{verb}-ignores", resources=ours)
            seen |= trial.observe(f"{verb}-ignores")
            trial.stop()
        # Without points from an extender the pod goes on, whether it may be ignored or not.
        _start(trial, asked, prioritizeVerb="prioritize", weight=1, httpTimeout="1s")
        trial.place("prioritize")
        return {**seen, **trial.observe("prioritize")}


def takes_its_time(trial: Trial) -> Json:
    """While it thinks others are bound, and a node comes too late; the end does not wait for it."""
    trial.add_node("n1", cpu="2")
    thinks, decides = threading.Event(), threading.Event()
    with extender() as asked:

        def answer(body: Json) -> Json:
            if body["Pod"]["metadata"]["name"].startswith("slow"):
                thinks.set()
                assert decides.wait(60), "the test has ended"
            return {"NodeNames": body["NodeNames"]}

        asked.answers["filter"] = answer
        _start(trial, asked, filterVerb="filter", httpTimeout="1h")
        trial.place("first")  # so that the others come in this order
        trial.add_pod("quick")
        trial.add_pod("slow")
        assert thinks.wait(30)
        trial.bound("quick")
        trial.add_node("n2", cpu="64")
        decides.set()
        trial.bound("slow")
        seen = trial.observe("quick", "slow")
        thinks.clear()
        decides.clear()
        trial.add_pod("slow-too")
        assert thinks.wait(30)
        code = trial.stop()
        decides.set()
        return {**seen, **trial.observe("slow-too"), "exit code": code}


def recovers(trial: Trial) -> Json:
    """A pod that waits for a slow or confused extender is tried again, without any event."""
    trial.add_node("n1")
    with extender() as asked:
        asked.answers["filter"] = _very_late
        _start(trial, asked, filterVerb="filter", httpTimeout="1s")
        trial.add_pod("waits")
        trial.refused("waits")
        asked.answers["filter"] = _always(b"<html>no</html>")
        message = "invalid character"
        trial.wait("the nonsense to be told", lambda: message in _told(trial, "waits"))
        asked.answers["filter"] = _refuses({}, {})
        trial.bound("waits")
        return _without_port(trial.observe("waits"), asked)


def preempting_fails(trial: Trial) -> Json:
    """No answer about victims, or a late one, spares them; unless the extender may be ignored."""
    trial.add(priority_class("high", 1000))
    trial.add_node("n1", cpu="2")
    trial.add_bound("occupant", "n1", cpu="2")
    seen: Json = {}
    with extender() as asked:
        for name, limit in (("fails", "30s"), ("late", "1s")):
            if name == "late":
                asked.answers["preempt"] = _very_late
            _start(trial, asked, preemptVerb="preempt", httpTimeout=limit)
            trial.add_pod(name, cpu="1", priorityClassName="high")
            trial.refused(name)
            seen |= _without_port(trial.observe(name, "occupant"), asked)
            trial.delete_pod(name)
            trial.gone(name)
            trial.stop()
        _start(trial, asked, preemptVerb="preempt", httpTimeout="1s", ignorable=True)
        trial.add_pod("ignores", cpu="1", priorityClassName="high")
        trial.nominated("ignores")
        trial.preempted("occupant")
        trial.refused("ignores")
        return {"spared": seen, **_without_port(trial.observe("ignores", "occupant"), asked)}


def ignored_points(trial: Trial) -> Json:
    """Points that fail to come do not count, whether the extender may be ignored or not."""
    trial.add_node("large", cpu="64")
    trial.add_node("small", cpu="2")
    with extender() as asked, extender() as broken:
        asked.answers["prioritize"] = lambda _: [{"Host": "small", "Score": 10}]
        fields: Json = {"prioritizeVerb": "prioritize", "weight": 100}
        _start_all(trial, broken.config(**fields, ignorable=True), asked.config(**fields))
        trial.place("placed", cpu="1")
        return {**trial.observe("placed"), "asked": asked.asked, "broken": broken.asked}


def ignored_nonsense(trial: Trial) -> Json:
    """Answers that cannot be read do not count where they may be ignored; readable ones do."""
    trial.add_node("n1")
    seen = {}
    with extender() as asked:
        _start(trial, asked, filterVerb="filter", ignorable=True)
        for i, nonsense in enumerate((*_NONSENSE, b'{"Error": "no opinion"}')):
            asked.answers["filter"] = _always(nonsense)
            name = f"pod-{i}"
            trial.add_pod(name)
            trial.wait(f"a decision about {name}", partial(_told, trial, name))
            seen[nonsense.decode()] = _without_port(trial.observe(name), asked)[name]
            trial.delete_pod(name)
            trial.gone(name)
    return seen


def nonsense_of_other_verbs(trial: Trial) -> Json:
    """Points, bindings and victims that cannot be read."""
    trial.add(priority_class("high", 1000))
    trial.add_node("n1", cpu="2")
    nonsense = _always(b"<html>no</html>")
    seen: Json = {}
    with extender() as asked:
        asked.answers |= dict.fromkeys(("prioritize", "bind", "preempt"), nonsense)
        _start(trial, asked, prioritizeVerb="prioritize", weight=1)
        trial.place("occupant", cpu="1")
        # Seen before the stop: events are written some time after the binding.
        seen["at first"] = trial.observe("occupant")
        trial.stop()
        _start(trial, asked, bindVerb="bind")
        trial.add_pod("bind-waits")
        trial.refused("bind-waits")
        seen |= _without_port(trial.observe("bind-waits"), asked)
        trial.delete_pod("bind-waits")
        trial.stop()
        _start(trial, asked, bindVerb="bind", ignorable=True)
        trial.place("bind-ignores")
        seen |= trial.observe("bind-ignores")
        trial.stop()
        _start(trial, asked, preemptVerb="preempt")
        trial.add_pod("preempt-waits", cpu="2", priorityClassName="high")
        trial.refused("preempt-waits")
        seen |= _without_port(trial.observe("preempt-waits", "occupant"), asked)
        trial.delete_pod("preempt-waits")
        trial.stop()
        _start(trial, asked, preemptVerb="preempt", ignorable=True)
        trial.add_pod("preempt-ignores", cpu="2", priorityClassName="high")
        trial.nominated("preempt-ignores")
        trial.preempted("occupant")
        trial.refused("preempt-ignores")
        return {**seen, **_without_port(trial.observe("preempt-ignores", "occupant"), asked)}


_NONSENSE = (
    b"",
    b"<html>no</html>",
    b"{",
    b"[]",
    b"null",
    b'"fine"',
    b'{"NodeNames": "n1"}',
    b'{"NodeNames": ["n1", 1]}',
    b'{"NodeNames": ["n9"]}',
    b'{"nodenames": null, "nodes": null}',
    b'{"FailedNodes": {"n1": 3}}',
    b'{"FailedNodes": ["n1"]}',
    b'{"Error": 5}',
    b'{"Error": {}}',
    b'{"Error" "fine"}',
    b'{"NodeNames": ["n1" "n2"]}',
    b'{"NodeNames": ["n1"] "Error": ""}',
    b"{Error: fine}",
    b'{"NodeNames": true}',
    b'{"Nodes": {"items": "n1"}}',
    b'{"Nodes": ["n1"]}',
    b'{"Error": "it said "no""} and more',
)


def _always(answer: object) -> Answer:
    return lambda _: answer


def _late(body: Json) -> Json:
    time.sleep(1.0)
    return {"NodeNames": body["NodeNames"]}


def _very_late(body: Json) -> Json:
    time.sleep(2.5)
    return {}


def _told(trial: Trial, name: str) -> str:
    """What the pod's condition says about the last attempt; its status where there is no text."""
    for condition in trial.pod(name)["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled":
            return str(condition.get("message") or condition["status"])
    return ""


def _lasting(obj: Json) -> Json:
    """What is the same in every run."""
    if "items" in obj:
        return {**obj, "items": [_lasting(item) for item in obj["items"]]}
    changing = ("uid", "resourceVersion", "creationTimestamp")
    meta = {key: value for key, value in obj["metadata"].items() if key not in changing}
    if "managedFields" in meta:
        meta["managedFields"] = "there, with times"
    return {**obj, "metadata": meta}


def _plain(trial: Trial, value: Json) -> Json:
    plain: Json = json.loads(trial.plain(json.dumps(value)))
    return plain


def _start_all(trial: Trial, *configs: Json) -> None:
    trial.start({"profiles": _ONE_PROFILE, "extenders": list(configs)})


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
    address = asked.url.removeprefix("http://")
    for observed in seen.values():
        lines = (line.replace(asked.url, "<url>") for line in observed["events"])
        observed["events"] = [line.replace(address, "<address>") for line in lines]
        for condition in observed["conditions"].values():
            if "message" in condition:
                condition["message"] = condition["message"].replace(asked.url, "<url>")
                condition["message"] = condition["message"].replace(address, "<address>")
    return seen


SCENARIOS = (
    filters,
    prioritizes,
    binds,
    fails,
    preempts,
    answers_nonsense,
    is_slow_or_gone,
    sees_whole_objects,
    weighs,
    binding_fails,
    refuses_victims,
    refusals_and_preemption,
    wakes_on_any_event,
    times_out,
    takes_its_time,
    recovers,
    preempting_fails,
    ignored_points,
    ignored_nonsense,
    nonsense_of_other_verbs,
)
