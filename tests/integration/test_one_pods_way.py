"""The way of a pod that docs/architecture.md tells is the way that a pod takes."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType

import moorage
from architecture.test_architecture_docs import STEPS, WAY
from integration.stage import LiveStage, at_work, run_bounded, until

MOORAGE = Path(moorage.__file__).parent
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
TOLD_OF = ("engine/", "framework/")
"""Packages of which every module that runs is told of."""


@contextmanager
def called() -> Iterator[set[tuple[str, str]]]:
    """The functions of Moorage that run meanwhile, each with its module."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{MOORAGE}/"):
            found.add((code.co_filename.removeprefix(f"{MOORAGE}/"), code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def one_pod() -> set[tuple[str, str]]:
    """What runs from the creation of a pod until the engine knows that it is bound."""
    ran: set[tuple[str, str]] = set()

    async def work() -> None:
        async with at_work(lambda server: LiveStage(server, CONFIG)) as stage:
            await stage.begin_with("n1")
            await stage.begin_with("n2")
            state = stage.scheduler.state
            with called() as found:
                await stage.create_pod("pod")
                await until(
                    lambda: any(not state.is_assumed(pod) for pod, _ in state.placed_pods())
                )
            ran.update(found)

    run_bounded(work)
    return ran


def test_a_pod_takes_the_way_that_the_documentation_tells() -> None:
    ran = one_pod()
    assert [step for step in STEPS if not _is_class(*step) and step not in ran] == []
    modules = {path for path, _ in ran if path.startswith(TOLD_OF)}
    assert sorted(path for path in modules if f"`{path}`" not in WAY) == []


def _is_class(path: str, name: str) -> bool:
    module = import_module(f"moorage.{path.removesuffix('.py').replace('/', '.')}")
    return inspect.isclass(getattr(module, name, None))
