"""The feature gates of kube-scheduler 1.37, as `feature_gates.yaml` has them.

Owns reading the file: stage, default and lock of each gate in every version that 1.37 can emulate,
and what depends on what. Must not know what a user has set (`feature_gates`).
"""

import enum
from collections.abc import Mapping

import msgspec

from moorage.tables import read_table


class Stage(enum.Enum):
    """How mature a feature is."""

    PRE_ALPHA = "PRE-ALPHA"
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class Gate(msgspec.Struct, frozen=True):
    """What is fixed about a gate; a locked one cannot be moved from its default.

    One that concerns `peers` is off by default until all of them understand the version it is from.
    """

    stage: Stage
    default: bool
    locked: bool = False
    peers: bool = False


class _File(msgspec.Struct):
    history: dict[str, dict[int, str]]
    dependencies: dict[str, tuple[str, ...]]


def _gate(words: str) -> Gate:
    stage, *rest = words.split()
    default = stage != "alpha" and "off" not in rest
    return Gate(Stage(stage.upper()), default, "locked" in rest, "peers" in rest)


_FILE = read_table("moorage.config", "feature_gates.yaml", _File)

HISTORY: Mapping[str, Mapping[int, Gate]] = {
    name: {minor: _gate(words) for minor, words in history.items()}
    for name, history in _FILE.history.items()
}
"""What a gate became and when: the key is the minor version of Kubernetes 1 from which it holds."""

DEPENDENCIES: Mapping[str, tuple[str, ...]] = _FILE.dependencies
"""What must be on wherever the gate is; both sides sorted, as upstream reports them."""
