"""A scheduler whose metrics can be read, with time and chance under control."""

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from moorage.config import DEFAULT_FEATURE_GATES, default_config, load_config
from moorage.config.feature_gates import FeatureGates
from moorage.engine.actions import Action
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.framework.plugin import Plugin
from moorage.kube.live import build_scheduler
from moorage.metrics.exporter import AllMetrics
from moorage.plugins.defaults import in_tree_registry

PROFILE = 'profile="default-scheduler"'


class Stopwatch:
    """Every reading is a millisecond after the one before."""

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        return self.readings / 1000


class Always(Random):
    """Chance that picks everything, or nothing."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


class Measured:
    """A scheduler and its metrics."""

    def __init__(
        self,
        plugins: Sequence[type[Plugin]] = (),
        *,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        closely: bool = False,
    ) -> None:
        self.clock = VirtualClock(1_000_000.0)
        self.stopwatch = Stopwatch()
        chance = Always(0.0 if closely else 0.99)
        self.metrics = AllMetrics(gates, now=self.stopwatch, clock=self.clock.now, random=chance)
        registry = in_tree_registry()
        for plugin in plugins:
            registry.register(plugin)
        config = default_config(gates)
        if plugins:
            enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in plugins)
            config = load_config(
                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                f"profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]",
                "test",
                gates,
            )
        self.scheduler: Scheduler = build_scheduler(
            config,
            registry,
            gates,
            self.clock,
            observer=self.metrics.scheduler,
        )

    def run(self) -> list[Action]:
        """Decide about everything that is ready, and take what is to be done."""
        self.scheduler.run_timers()
        while self.scheduler.schedule_one():
            pass
        actions = list(self.scheduler.outbox)
        self.scheduler.outbox.clear()
        return actions

    def values(self, name: str) -> dict[str, float]:
        """Every value of a name, by its labels as they are written."""
        return values_in(self.metrics.render()[1], name)


def values_in(text: bytes, name: str) -> dict[str, float]:
    """Every value of a name in a text, by its labels as they are written."""
    lines = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text.decode(), re.MULTILINE)
    return {labels: float(value) for labels, value in lines}


def nonzero(values: dict[str, Any]) -> dict[str, Any]:
    """Only what is not 0."""
    return {key: value for key, value in values.items() if value}
