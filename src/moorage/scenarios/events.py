"""What befalls the nodes of a simulation: failure and repair, drains, taints."""

from collections.abc import Mapping

from moorage.controllers.objects import Json
from moorage.scenarios.scenario import ScenarioEvent
from moorage.scenarios.scenario_file import ScenarioFile, parse_taint
from moorage.scenarios.simulation import Simulation


def befall(
    run: Simulation,
    file: ScenarioFile,
    number: int,
    event: ScenarioEvent,
    nodes: Mapping[str, Json],
) -> None:
    """Let an event happen now."""
    name = event.node
    there = run.api.cluster.get("Node", "", name) is not None
    if event.what == "repair":
        if name not in nodes or there:
            file.refuse(f"events[{number}].node", f"expected a node of a shape that failed: {name}")
        run.come(nodes[name])
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
