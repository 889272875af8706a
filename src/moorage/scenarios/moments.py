"""Any moment of a run: the scenario is played up to it, and what is there is asked.

A run is the same each time, so nothing has to be kept of it.
"""

from moorage.errors import InputError
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation
from moorage.model.pod import Pod
from moorage.scenarios.runs import play_until
from moorage.scenarios.scenario import ScenarioScheduler
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.simulation import Simulation

SOURCE = "simulation"
"""Where explanations of this module come from."""


def explain_at(
    file: ScenarioFile, scheduler: ScenarioScheduler, seed: int, pod: str, at: str
) -> PodExplanation:
    """Explain a pod as things are when everything has happened until then.

    `at`: a duration, as scenarios have them.
    """
    if file.seconds(at, "") > file.seconds(file.scenario.stop.after, "stop.after"):
        raise InputError(f"--explain: {at} is after the end, {file.scenario.stop.after}")
    runs: list[Simulation] = []
    play_until(file, scheduler, seed, at, runs.append)
    return _explained(runs[0], pod, at)


def _explained(run: Simulation, name: str, at: str) -> PodExplanation:
    namespace, _, short = name.rpartition("/")
    pod = run.find(Pod, short, namespace or "default")
    if not isinstance(pod, Pod):
        raise InputError(
            f"--explain: there is no pod {namespace or 'default'}/{short} after {at}; pods that "
            "have finished are not looked at any more"
        )
    profile = run.engine.profiles.get(pod.spec.scheduler_name)
    if profile is None:
        raise InputError(f"--explain: pod {pod.key} is another scheduler's")
    return explain_pod(
        run.engine.cycle, profile, pod, source=SOURCE, placed_on=pod.spec.node_name or None
    )
