"""Profiles that were run through the real scheduler to record the golden decisions.

`profiles.json` holds most of the distinct `config.profile` values of that corpus.
"""

import json
from pathlib import Path
from typing import Any

from moorage.config import load_config, load_profile
from moorage.config.args import ARGS_OF_PLUGIN
from moorage.config.plugins import Implements, effective_plugins
from moorage.config.types import API_VERSION, KIND, ExtensionPoint, PluginArgs

PROFILES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "profiles.json").read_text("utf-8")
)


def test_every_golden_profile_loads_and_can_be_expanded(in_tree: Implements) -> None:
    for profile in PROFILES:
        loaded = load_profile(profile, "golden")
        plugins = effective_plugins(loaded, in_tree)
        assert plugins.at(ExtensionPoint.QUEUE_SORT) == ("PrioritySort",)


def test_every_golden_profile_keeps_its_name_and_gets_all_arguments() -> None:
    for profile in PROFILES:
        loaded = load_profile(profile, "golden")
        assert loaded.scheduler_name == profile["schedulerName"]
        for name in loaded.plugins.enabled_names() & ARGS_OF_PLUGIN.keys():
            assert isinstance(loaded.args_for(name), PluginArgs)


def test_a_profile_alone_is_the_same_as_in_a_file() -> None:
    for profile in PROFILES[::10]:
        file = json.dumps({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
        assert load_config(file, "cfg.json").profiles == (load_profile(profile, "golden"),)
