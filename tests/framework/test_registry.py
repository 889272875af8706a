import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from moorage.config import DEFAULT_FEATURE_GATES
from moorage.config.plugins import default_plugins
from moorage.config.types import ExtensionPoint
from moorage.errors import ConfigError
from moorage.framework import registry as registry_module
from moorage.framework.plugin import FilterPlugin, Plugin, ScorePlugin
from moorage.framework.registry import POINT_CLASSES, Registry
from moorage.framework.status import Verdicts
from moorage.plugins.defaults import in_tree_registry


class Quiet(FilterPlugin[None]):
    name = "Quiet"

    def filter(self, pod: Any, nodes: Any, state: None) -> Verdicts:
        return Verdicts(len(nodes))


class AnotherQuiet(Quiet):
    """Bears the same name."""


def offer(monkeypatch: pytest.MonkeyPatch, **plugins: object) -> None:
    """Let an installed package offer entry points."""
    module = ModuleType("harbour_plugins")
    for name, plugin in plugins.items():
        setattr(module, name, plugin)
    monkeypatch.setitem(sys.modules, "harbour_plugins", module)
    points = [
        EntryPoint(name, f"harbour_plugins:{name}", registry_module.ENTRY_POINT_GROUP)
        for name in plugins
    ]
    monkeypatch.setattr(registry_module, "entry_points", lambda group: points)


def test_a_registered_plugin_is_found_by_its_name() -> None:
    registry = Registry([Quiet])
    assert "Quiet" in registry
    assert registry["Quiet"] is Quiet
    assert "Loud" not in registry


def test_a_name_taken_twice_is_an_error_that_names_both_modules() -> None:
    registry = in_tree_registry()

    class NodeName(Quiet):
        name = "NodeName"

    with pytest.raises(ConfigError, match="a plugin named NodeName already exists") as caught:
        registry.register(NodeName)
    assert "moorage.plugins.node_name" in str(caught.value)
    assert __name__ in str(caught.value)


def test_registering_the_same_class_twice_is_an_error_too() -> None:
    with pytest.raises(ConfigError, match="already exists"):
        Registry([Quiet, AnotherQuiet])


def test_plugins_of_installed_packages_join_those_in_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, Quiet=Quiet)
    registry = in_tree_registry()
    registry.register_entry_points()
    assert registry["Quiet"] is Quiet
    assert "NodeName" in registry


class Nameless(FilterPlugin[None]):
    def filter(self, pod: Any, nodes: Any, state: None) -> Verdicts:
        return Verdicts(len(nodes))


@pytest.mark.parametrize(
    ("offered", "problem"),
    [
        (lambda: None, "is not a subclass of"),
        (Quiet(None, None), "is not a subclass of"),  # type: ignore[arg-type]  # never used
        (Nameless, "is a class without a name"),
    ],
    ids=["function", "instance", "nameless"],
)
def test_an_entry_point_that_is_no_plugin_is_a_warning_and_an_error_for_who_enables_it(
    offered: object,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    offer(monkeypatch, Broken=offered, Quiet=Quiet)
    registry = Registry()
    registry.register_entry_points()
    assert f"entry point Broken = harbour_plugins:Broken {problem}" in caplog.text
    assert registry.implements("Quiet", ExtensionPoint.FILTER)
    with pytest.raises(ConfigError, match=problem):
        registry.implements("Broken", ExtensionPoint.FILTER)


def test_an_entry_point_that_does_not_load_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    missing = EntryPoint("Gone", "no_such_package:Gone", registry_module.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry_module, "entry_points", lambda group: [missing])
    registry = Registry()
    registry.register_entry_points()
    assert "Gone = no_such_package:Gone cannot be loaded: ModuleNotFoundError" in caplog.text
    with pytest.raises(ConfigError, match="No module named 'no_such_package'"):
        registry.implements("Gone", ExtensionPoint.FILTER)


def test_an_entry_point_with_a_name_in_tree_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class NodePorts(Quiet):
        name = "NodePorts"

    offer(monkeypatch, NodePorts=NodePorts)
    with pytest.raises(ConfigError, match="NodePorts already exists"):
        in_tree_registry().register_entry_points()


def test_a_plugin_implements_the_points_it_inherits_from() -> None:
    registry = Registry([Quiet])
    assert registry.implements("Quiet", ExtensionPoint.FILTER)
    assert not registry.implements("Quiet", ExtensionPoint.SCORE)
    assert not registry.implements("Unknown", ExtensionPoint.FILTER)
    assert not registry.implements("Quiet", ExtensionPoint.PLACEMENT_SCORE)
    default = default_plugins(DEFAULT_FEATURE_GATES).enabled_names()
    assert all(name in in_tree_registry() for name in default)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (ExtensionPoint.PRE_ENQUEUE, {"SchedulingGates", "DynamicResources", "DefaultPreemption"}),
        (ExtensionPoint.QUEUE_SORT, {"PrioritySort"}),
        (ExtensionPoint.POST_FILTER, {"DynamicResources", "DefaultPreemption"}),
        (
            ExtensionPoint.SCORE,
            {
                "TaintToleration",
                "NodeAffinity",
                "NodeResourcesFit",
                "VolumeBinding",
                "PodTopologySpread",
                "InterPodAffinity",
                "DynamicResources",
                "NodeResourcesBalancedAllocation",
                "ImageLocality",
            },
        ),
        (ExtensionPoint.BIND, {"DefaultBinder"}),
    ],
    ids=lambda value: value.value if isinstance(value, ExtensionPoint) else "",
)
def test_in_tree_plugins_take_part_where_upstreams_do(
    point: ExtensionPoint, expected: set[str]
) -> None:
    registry = in_tree_registry()
    default = default_plugins(DEFAULT_FEATURE_GATES).enabled_names()
    assert {name for name in default if registry.implements(name, point)} == expected


def test_every_extension_point_of_a_single_pod_has_a_class() -> None:
    placement = {ExtensionPoint.PLACEMENT_GENERATE, ExtensionPoint.PLACEMENT_SCORE}
    assert set(POINT_CLASSES) >= set(ExtensionPoint) - placement
    assert all(issubclass(kind, Plugin) for kind in POINT_CLASSES.values())
    assert POINT_CLASSES[ExtensionPoint.SCORE] is ScorePlugin
