"""What differs between two configurations, and what is odd about one."""

from typing import Any

import pytest

from moorage.config import (
    DEFAULT_FEATURE_GATES,
    KubeSchedulerConfiguration,
    default_config,
    load_config,
)
from moorage.config.difference import Difference, differences
from moorage.config.oddities import oddities
from moorage.config.plugins import Implements
from moorage.config.types import API_VERSION, KIND

HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"


def load(text: str) -> KubeSchedulerConfiguration:
    return load_config(HEADER + text, "cfg")


def plugins(text: str) -> str:
    return f"profiles: [{{plugins: {text}}}]"


def difference(path: str, before: Any, after: Any) -> Difference:
    return Difference(path, before, after, profile="default-scheduler")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("parallelism: 16", [], id="a default written out"),
        pytest.param(
            plugins("{multiPoint: {enabled: [{name: NodeName}]}}"), [], id="enabled already"
        ),
        pytest.param("parallelism: 8", [Difference("parallelism", 16, 8)], id="a field"),
        pytest.param(
            "leaderElection: {leaderElect: false}",
            [Difference("leaderElection.leaderElect", True, False)],
            id="a nested field",
        ),
        pytest.param(
            plugins("{filter: {disabled: [{name: NodePorts}]}}"),
            [difference("plugins.filter[NodePorts]", "enabled", None)],
            id="a plugin less",
        ),
        pytest.param(
            plugins("{score: {disabled: [{name: ImageLocality}]}}"),
            [difference("plugins.score[ImageLocality]", "weight 1", None)],
            id="a score less",
        ),
        pytest.param(
            plugins("{multiPoint: {enabled: [{name: ImageLocality, weight: 4}]}}"),
            [difference("plugins.score[ImageLocality]", "weight 1", "weight 4")],
            id="another weight",
        ),
        pytest.param(
            plugins("{postFilter: {enabled: [{name: DefaultPreemption}]}}"),
            [
                difference(
                    "plugins.postFilter order",
                    ["DynamicResources", "DefaultPreemption"],
                    ["DefaultPreemption", "DynamicResources"],
                )
            ],
            id="another order",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]}]",
            [difference("pluginConfig.VolumeBinding.bindTimeoutSeconds", 600, 5)],
            id="an argument",
        ),
        pytest.param(
            "profiles: [{percentageOfNodesToScore: 5}]",
            [difference("percentageOfNodesToScore", None, 5)],
            id="a field of a profile",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}]",
            [
                Difference("", "a whole profile", None, profile="default-scheduler"),
                Difference("", None, "a whole profile", profile="a"),
            ],
            id="another profile",
        ),
    ],
)
def test_only_what_differs_after_defaulting_is_told(
    in_tree: Implements, text: str, expected: list[Difference]
) -> None:
    assert differences(default_config(), load(text), in_tree) == expected
    reverse = differences(load(text), default_config(), in_tree)
    mirrored = {(one.profile, one.path, str(one.after), str(one.before)) for one in expected}
    assert {(one.profile, one.path, str(one.before), str(one.after)) for one in reverse} == mirrored


def test_extenders_are_told_apart_by_address(in_tree: Implements) -> None:
    before = load("extenders: [{urlPrefix: 'http://x'}, {urlPrefix: 'http://y'}]")
    after = load("extenders: [{urlPrefix: 'http://y', filterVerb: f}, {urlPrefix: 'http://y'}]")
    assert differences(before, after, in_tree) == [
        Difference("extenders[http://x]", {"urlPrefix": "http://x", "httpTimeout": "5s"}, None),
        Difference("extenders[http://y].filterVerb", None, "f"),
        Difference("extenders[http://y]#2", None, {"urlPrefix": "http://y", "httpTimeout": "5s"}),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(
            plugins("{score: {disabled: [{name: NodeResourceFit}, {name: '*'}]}}"),
            [
                'profiles[0].plugins.score.disabled[0]: "NodeResourceFit" is not enabled by '
                "default, so nothing is disabled"
            ],
            id="a misspelt plugin disabled",
        ),
        pytest.param(
            plugins("{multiPoint: {disabled: [{name: Foo}]}}"),
            [
                'profiles[0].plugins.multiPoint.disabled[0]: "Foo" is not enabled by default, '
                "so nothing is disabled"
            ],
            id="an unknown plugin disabled everywhere",
        ),
        pytest.param(
            plugins(
                "{multiPoint: {enabled: [{name: Foo}]}, score: {disabled: [{name: Foo}, "
                "{name: NodeAffinity}]}}"
            ),
            [],
            id="a plugin that runs elsewhere disabled",
        ),
        pytest.param(
            plugins("{filter: {enabled: [{name: NodeName}, {name: NodePorts, weight: 3}]}}"),
            ["profiles[0].plugins.filter.enabled[1].weight: only weights of score plugins count"],
            id="a weight that weighs nothing",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: Foo, args: {}}]}]",
            ['profiles[0].pluginConfig[0]: "Foo" is enabled nowhere, so nobody reads its args'],
            id="arguments for nobody",
        ),
        pytest.param(
            "extenders: [{urlPrefix: 'http://x', filterVerb: f}, {urlPrefix: 'http://y'}]",
            ["extenders[1]: it has no verb, so it is never asked"],
            id="an extender for nothing",
        ),
    ],
)
def test_what_is_legal_and_surely_unwanted_is_told(text: str, expected: list[str]) -> None:
    assert oddities(load(text), DEFAULT_FEATURE_GATES) == expected
