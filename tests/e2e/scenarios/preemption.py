"""Pods that make room for more important ones."""

from e2e.client import Json
from e2e.objects import HOSTNAME, disruption_budget, priority_class
from e2e.trial import Trial


def graceful_victim(trial: Trial) -> Json:
    """The preemptor is nominated, its victim told why; it is bound when the victim has gone."""
    _priorities(trial)
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.place("victim", cpu="2", priorityClassName="low")
    trial.add_pod("preemptor", cpu="1", priorityClassName="high")
    trial.nominated("preemptor")
    trial.preempted("victim")
    trial.refused("preemptor")
    stays = trial.stays_refused("preemptor")
    during = trial.observe("victim", "preemptor")
    trial.delete_pod("victim")
    trial.bound("preemptor")
    return {
        "attempts": stays,
        "during": during,
        "after": trial.observe("preemptor"),
        "victim's events": trial.event_lines("victim"),
    }


def immediate_victims(trial: Trial) -> Json:
    """Victims without a grace period go at once; those that need not go are spared."""
    _priorities(trial)
    trial.add_node("n1", cpu="4")
    trial.start()
    for name, cpu, level in (
        ("small-low", "1", "low"),
        ("big-low", "2", "low"),
        ("middle", "1", "middle"),
    ):
        trial.place(name, cpu=cpu, priorityClassName=level, terminationGracePeriodSeconds=0)
    trial.add_pod("preemptor", cpu="2", priorityClassName="high")
    trial.bound("preemptor")
    trial.gone("big-low")
    return {
        **trial.observe("preemptor", "small-low", "middle"),
        "victim's events": trial.event_lines("big-low"),
    }


def cheapest_node(trial: Trial) -> Json:
    """Of several nodes the one whose most important victim matters least is taken."""
    _priorities(trial)
    for name, level in (("n1", "middle"), ("n2", "low"), ("n3", "high")):
        trial.add_node(name, cpu="2")
        trial.add_bound(f"on-{name}", name, cpu="2", priorityClassName=level)
    trial.start()
    trial.add_pod("preemptor", cpu="1", priorityClassName="high")
    trial.nominated("preemptor")
    trial.preempted("on-n2")
    during = trial.observe("preemptor", "on-n1", "on-n2", "on-n3")
    trial.delete_pod("on-n2")
    trial.bound("preemptor")
    return {"during": during, "after": trial.observe("preemptor")}


def disruption_budgets(trial: Trial) -> Json:
    """A node is preferred on which no budget is broken; a budget alone protects nobody."""
    _priorities(trial)
    guarded = {"app": "guarded"}
    trial.add(disruption_budget("guard", guarded, min_available=1))
    for name, labels in (("n1", guarded), ("n2", {"app": "free"})):
        trial.add_node(name, cpu="2")
        trial.add_bound(f"on-{name}", name, cpu="2", labels=labels, priorityClassName="low")
    trial.start()
    trial.add_pod("first", cpu="2", priorityClassName="high")
    trial.nominated("first")
    trial.preempted("on-n2")
    first = trial.observe("first", "on-n1", "on-n2")
    trial.delete_pod("on-n2")
    trial.bound("first")
    trial.add_pod("second", cpu="2", priorityClassName="high")
    trial.nominated("second")
    trial.preempted("on-n1")
    second = trial.observe("second", "on-n1")
    trial.delete_pod("on-n1")
    trial.bound("second")
    return {"first": first, "second": second, "after": trial.observe("first", "second")}


def budget_with_room(trial: Trial) -> Json:
    """A budget counts as broken from the victim on that is one too many for it."""
    _priorities(trial)
    guarded = {"app": "guarded"}
    trial.add(disruption_budget("guard", guarded, min_available=1))
    for name in ("n1", "n2"):
        trial.add_node(name, cpu="2")
    seen: Json = {}
    for allowed in (1, 2):
        # The scheduler starts anew, so as to have heard of the budget before the pod comes.
        _allow(trial, "guard", allowed)
        pods = [f"{kind}-{number}-{allowed}" for kind in ("guarded", "free") for number in (1, 2)]
        for name in pods[:2]:
            trial.add_bound(name, "n1", cpu="1", labels=guarded, priorityClassName="low")
        for name in pods[2:]:
            trial.add_bound(name, "n2", cpu="1", priorityClassName="middle")
        trial.start()
        preemptor = f"preemptor-{allowed}"
        trial.add_pod(preemptor, cpu="2", priorityClassName="high")
        node = trial.nominated(preemptor)
        for name in pods[:2] if node == "n1" else pods[2:]:
            trial.preempted(name)
        trial.refused(preemptor)
        seen[f"{allowed} allowed"] = trial.observe(preemptor, *pods)
        trial.stop()
        for name in (preemptor, *pods):
            trial.delete_pod(name)
            trial.gone(name)
    return seen


def not_helpful(trial: Trial) -> Json:
    """No victims where none would help, where none is less important, or where it is forbidden."""
    _priorities(trial)
    trial.add(priority_class("polite", 1000, preemptionPolicy="Never"))
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.place("occupant", cpu="2", priorityClassName="middle")
    trial.add_pod("equal", cpu="1", priorityClassName="middle")
    trial.add_pod("polite", cpu="1", priorityClassName="polite")
    trial.add_pod("too-big", cpu="4", priorityClassName="high")
    trial.add_pod("elsewhere", priorityClassName="high", nodeSelector={HOSTNAME: "n9"})
    for name in ("equal", "polite", "too-big", "elsewhere"):
        trial.refused(name)
    return trial.observe("occupant", "equal", "polite", "too-big", "elsewhere")


def place_taken(trial: Trial) -> Json:
    """A nominated pod's place is kept from less important pods while its victim goes."""
    _priorities(trial)
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.place("victim", cpu="2", priorityClassName="low")
    trial.add_pod("preemptor", cpu="2", priorityClassName="high")
    trial.nominated("preemptor")
    trial.preempted("victim")
    trial.add_pod("thief", cpu="1", priorityClassName="middle")
    trial.refused("thief")
    during = trial.observe("thief")
    trial.delete_pod("victim")
    trial.bound("preemptor")
    trial.refused("thief", attempts=2)
    return {"during": during, **trial.observe("preemptor", "thief")}


def nominee_outranked(trial: Trial) -> Json:
    """A more important pod that comes later takes the nominee's place with its victim."""
    _priorities(trial)
    trial.add_node("n1", cpu="2")
    trial.start()
    trial.place("victim", cpu="2", priorityClassName="low")
    trial.add_pod("nominee", cpu="2", priorityClassName="middle")
    trial.nominated("nominee")
    trial.preempted("victim")
    trial.refused("nominee")
    before = trial.observe("victim", "nominee")
    trial.add_pod("boss", cpu="2", priorityClassName="high")
    trial.nominated("boss")
    trial.refused("boss")
    stays = trial.stays_refused("boss")
    during = trial.observe("boss", "nominee")
    trial.delete_pod("victim")
    trial.bound("boss")
    trial.refused("nominee", attempts=2)
    after = trial.observe("boss", "nominee")
    trial.delete_pod("boss")
    trial.bound("nominee")
    return {
        "before": before,
        "attempts": stays,
        "during": during,
        "after": after,
        "victim's events": trial.event_lines("victim"),
        **trial.observe("nominee"),
    }


def nominee_driven_out(trial: Trial) -> Json:
    """A more important pod that needs more victims takes the nomination back as well."""
    _priorities(trial)
    trial.add_node("n1", cpu="4")
    trial.start()
    trial.place("victim", cpu="2", priorityClassName="low")
    trial.place("spared", cpu="2", priorityClassName="middle")
    trial.add_pod("nominee", cpu="2", priorityClassName="middle")
    trial.nominated("nominee")
    trial.preempted("victim")
    trial.refused("nominee")
    before = trial.observe("victim", "spared", "nominee")
    trial.add_pod("boss", cpu="4", priorityClassName="high")
    trial.nominated("boss")
    trial.preempted("spared")
    trial.refused("boss")
    trial.wait("the nomination to be taken back", lambda: not _nomination(trial, "nominee"))
    trial.refused("nominee", attempts=2)
    stays = trial.stays_refused("boss")
    during = trial.observe("spared", "boss", "nominee")
    trial.delete_pod("victim")
    trial.refused("boss", attempts=2)
    trial.delete_pod("spared")
    trial.bound("boss")
    trial.refused("nominee", attempts=3)
    after = trial.observe("boss", "nominee")
    trial.delete_pod("boss")
    trial.bound("nominee")
    return {
        "before": before,
        "attempts": stays,
        "during": during,
        "after": after,
        **trial.observe("nominee"),
    }


def nominee_outranked_elsewhere(trial: Trial) -> Json:
    """A nominee keeps its place where the more important pod can do better on another node."""
    _priorities(trial)
    trial.add_node("n1", cpu="2")
    trial.add_node("n2", cpu="1")
    trial.add_bound("on-n1", "n1", cpu="2", priorityClassName="low")
    trial.start()
    trial.add_pod("nominee", cpu="2", priorityClassName="middle")
    trial.nominated("nominee")
    trial.preempted("on-n1")
    trial.refused("nominee")
    trial.place("boss", cpu="1", priorityClassName="high")
    attempts = trial.stays_refused("nominee")
    during = trial.observe("boss", "nominee", "on-n1")
    trial.delete_pod("on-n1")
    trial.bound("nominee")
    return {"attempts": attempts, "during": during, **trial.observe("nominee")}


def _priorities(trial: Trial) -> None:
    for name, value in (("low", 10), ("middle", 20), ("high", 30)):
        trial.add(priority_class(name, value))


def _allow(trial: Trial, budget: str, disruptions: int) -> None:
    """What the controller of budgets finds out."""
    healthy = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    status = {"disruptionsAllowed": disruptions, "observedGeneration": 1, **healthy}
    trial.api.patch("PodDisruptionBudget", budget, {"status": status}, trial.namespace, "status")


def _nomination(trial: Trial, name: str) -> str | None:
    nomination: str | None = trial.pod(name)["status"].get("nominatedNodeName")
    return nomination


SCENARIOS = (
    graceful_victim,
    immediate_victims,
    cheapest_node,
    disruption_budgets,
    budget_with_room,
    not_helpful,
    place_taken,
    nominee_outranked,
    nominee_driven_out,
    nominee_outranked_elsewhere,
)
