"""All flags of `moorage scheduler`, read from `flags.yaml` in the order of the help.

Owns what of their texts depends on the version: the feature gates and the versions that can be
emulated. What the flags mean is in `options`.
"""

from typing import Any

from moorage.app.flag_values import KINDS
from moorage.app.flags import Flag, Section
from moorage.config.feature_gates import (
    BINARY_VERSION,
    CURRENT_VERSION,
    DEFAULT_FEATURE_GATES,
    FLOOR,
    EffectiveVersion,
    KnownFeature,
    gates_at,
)
from moorage.config.field_errors import go_json
from moorage.config.gate_table import Stage
from moorage.tables import read_table


def _option(feature: KnownFeature) -> str:
    shown = f"{feature.name}=true|false ({feature.stage.value} - default="
    own, among_peers = feature.default, _AMONG_PEERS.get(feature.name, feature).default
    if own == among_peers:
        return f"{shown}{go_json(own)})"
    return (
        f"{shown}{go_json(own)}), or {shown}{go_json(among_peers)}) "
        f"if --min-compatibility-version>={BINARY_VERSION}"
    )


_AMONG_PEERS = gates_at(EffectiveVersion(BINARY_VERSION, BINARY_VERSION))
"""The gates where every component is of this version."""
_VERSIONS = f"kube={FLOOR}..{BINARY_VERSION}(default:"
_FILLED_IN = {
    "@emulated@": f"{_VERSIONS}{CURRENT_VERSION.emulation})",
    "@compatible@": f"{_VERSIONS}{CURRENT_VERSION.min_compatibility})",
    "@gates@": "\n".join(
        f"kube:{_option(feature)}"
        for feature in DEFAULT_FEATURE_GATES.known()
        if feature.stage in (Stage.ALPHA, Stage.BETA)
    ),
}


def _sections() -> tuple[Section, ...]:
    return tuple(
        Section(section["title"], tuple(map(_flag, section["flags"])))
        for section in read_table("moorage.app", "flags.yaml", list[dict[str, Any]])
    )


def _flag(entry: dict[str, Any]) -> Flag:
    usage = entry["usage"]
    for mark, value in _FILLED_IN.items():
        usage = usage.replace(mark, value)
    return Flag(**entry | {"kind": KINDS[entry["kind"]], "usage": usage})


SECTIONS = _sections()
MOORAGE = SECTIONS[-1]
"""Those that kube-scheduler does not have."""
