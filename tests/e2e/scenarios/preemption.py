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
    trial.terminating("victim")
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
    trial.terminating("on-n2")
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
    trial.terminating("on-n2")
    first = trial.observe("first", "on-n1", "on-n2")
    trial.delete_pod("on-n2")
    trial.bound("first")
    trial.add_pod("second", cpu="2", priorityClassName="high")
    trial.nominated("second")
    trial.terminating("on-n1")
    second = trial.observe("second", "on-n1")
    trial.delete_pod("on-n1")
    trial.bound("second")
    return {"first": first, "second": second, "after": trial.observe("first", "second")}


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
    trial.terminating("victim")
    trial.add_pod("thief", cpu="1", priorityClassName="middle")
    trial.refused("thief")
    during = trial.observe("thief")
    trial.delete_pod("victim")
    trial.bound("preemptor")
    trial.refused("thief", attempts=2)
    return {"during": during, **trial.observe("preemptor", "thief")}


def _priorities(trial: Trial) -> None:
    for name, value in (("low", 10), ("middle", 20), ("high", 30)):
        trial.add(priority_class(name, value))


SCENARIOS = (
    graceful_victim,
    immediate_victims,
    cheapest_node,
    disruption_budgets,
    not_helpful,
    place_taken,
)
