"""Golden cases (one cluster, one pending pod, what kube-scheduler decided) put to our engine.

Owns finding and reading the files (`<family>.jsonl` or `.jsonl.gz`, one case per line), and our
answer in their words. Every node is evaluated and every feasible one scored, even where a scheduler
would stop early, because the recording did the same. Cases know nothing of each other: each gets a
cluster of its own. Must not judge a case: `conformance` compares.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from moorage.config import KubeSchedulerConfiguration, load_profile
from moorage.engine.decisions import Bind, Gated, Unschedulable
from moorage.errors import DecodeError, InputError, PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.outcomes import FilterOutcome, PreFiltered, Scores
from moorage.framework.plugin import PostFilterResult
from moorage.framework.profile import Profile
from moorage.framework.registry import Registry
from moorage.framework.status import Code, Status
from moorage.model.decode import KINDS, decode_json
from moorage.model.meta import ApiObject, Json
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.dynamic_resources.pod_state import PodState
from moorage.plugins.dynamic_resources.search import ChosenDevice
from moorage.simulator.world import World

SUFFIXES = (".jsonl", ".jsonl.gz")


class GoldenCase(msgspec.Struct, frozen=True):
    """One recorded decision."""

    name: str
    objects: list[msgspec.Raw]
    pod: msgspec.Raw
    expect: Json
    config: Json | None = None
    kubernetes: str = ""

    @property
    def family(self) -> str:
        """What the case exercises: its name without the number."""
        return self.name.rpartition("-")[0] or self.name


class GoldenLine(msgspec.Struct, frozen=True):
    """A case as it stands in a file; cheap to hand to another process."""

    source: str
    """`file:line`, for messages."""
    text: bytes

    def decode(self) -> GoldenCase:
        try:
            return _DECODER.decode(self.text)
        except msgspec.MsgspecError as error:
            raise InputError(f"{self.source}: not a golden case: {error}") from error


_DECODER = msgspec.json.Decoder(GoldenCase)


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The golden files at some paths: files as they are, folders searched for them."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name.endswith(SUFFIXES))
            if not inside:
                raise InputError(f"{path}: no golden files (.jsonl, .jsonl.gz) in this folder")
            found += inside
        elif not path.exists():
            raise InputError(f"{path}: no such file or folder")
        elif not path.name.endswith(SUFFIXES):
            raise InputError(f"{path}: not a golden file (.jsonl or .jsonl.gz)")
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def read_lines(path: Path) -> Iterator[GoldenLine]:
    """The cases of one file, undecoded."""
    open_file = gzip.open if path.name.endswith(".gz") else open
    try:
        with open_file(path, "rb") as lines:
            for number, text in enumerate(lines, 1):
                if text.strip():
                    yield GoldenLine(f"{path}:{number}", text)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}") from error


_NOTHING: Mapping[str, Any] = {
    "preFilter": None,
    "preFilterNodes": None,
    "filter": {},
    "feasible": [],
    "scores": {},
    "skippedFilterPlugins": [],
    "skippedScorePlugins": [],
    "best": [],
}
"""The fields that every recorded case has, as they are when nothing happened."""


class _Kind(msgspec.Struct, frozen=True):
    kind: str


_KIND = msgspec.json.Decoder(_Kind)


def replay(case: GoldenCase, registry: Registry, *, reuse: bool = True) -> Json:
    """What our engine makes of a case, in the form of `expect`."""
    return _decide(*world_of(case, registry, reuse=reuse))


def world_of(
    case: GoldenCase, registry: Registry, *, reuse: bool = True
) -> tuple[World, Profile, Pod]:
    """The cluster of a case, its profile, and the pod to be placed."""
    world = World(_configuration(case), registry=registry, reuse=reuse)
    world.add_all(_decode(raw, case.name) for raw in case.objects)
    pod = decode_json(Pod, bytes(case.pod), case.name)
    (profile,) = world.profiles.values()
    # A recorded pod with a nomination is known to the nominator like any other.
    if pod.status.nominated_node_name:
        world.cycle.nominated.add(pod, pod.status.nominated_node_name)
    return world, profile, pod


def _configuration(case: GoldenCase) -> KubeSchedulerConfiguration:
    written: Json = (case.config or {}).get("profile") or {}
    profile = load_profile(written, case.name)
    # Golden data is recorded without sampling.
    profile = msgspec.structs.replace(profile, percentage_of_nodes_to_score=None)
    return KubeSchedulerConfiguration(profiles=(profile,))


def _decode(raw: msgspec.Raw, where: str) -> ApiObject:
    try:
        kind = _KIND.decode(raw).kind
    except msgspec.MsgspecError as error:
        raise DecodeError(f"{where}: {error}") from error
    known = KINDS.get(kind)
    if known is None:
        raise InputError(f"{where}: kind {kind} is not known")
    return decode_json(known.struct, bytes(raw), where)


def _decide(world: World, profile: Profile, pod: Pod) -> Json:
    actual: Json = dict(_NOTHING)
    try:
        decision, attempt = world.cycle.decide(profile, pod)
    except PluginError as error:
        actual["error"] = str(error)
        actual.update(_errors(world, profile, pod))
        return actual
    if isinstance(decision, Gated):
        actual["preEnqueue"] = _status(decision.status)
        return actual
    if attempt is not None:
        actual.update(_filtered(attempt))
    if isinstance(decision, Unschedulable):
        actual["fitError"] = decision.message
        actual["unschedulablePlugins"] = sorted(decision.unschedulable_plugins)
        if attempt is not None and attempt.post_filter is not None:
            actual["postFilter"] = _post_filter(attempt.post_filter)
    elif attempt is not None:
        actual.update(_scored(world, attempt, decision))
    return actual


def _errors(world: World, profile: Profile, pod: Pod) -> Json:
    """What can still be said of an attempt that a plugin's error ended."""
    attempt = world.cycle.filter(profile, pod)
    outcome = attempt.outcome
    found = _filtered(attempt)
    found["feasible"] = []
    if outcome is not None:
        found["errors"] = [
            status["reasons"][0]
            for status in found["filter"].values()
            if status["code"] == Code.ERROR.value
        ]
    return found


def _filtered(attempt: AttemptResult) -> Json:
    before = attempt.before
    fields: Json = {
        "preFilter": None if before.rejection is None else _status(before.rejection),
        "preFilterNodes": _looked_at(before),
        "skippedFilterPlugins": sorted(before.skipped),
    }
    outcome = attempt.outcome
    if outcome is not None:
        fields["filter"] = _verdicts(attempt, outcome)
        fields["feasible"] = sorted(attempt.nodes.node(row).name for row in outcome.feasible)
    return fields


def _verdicts(attempt: AttemptResult, outcome: FilterOutcome) -> Json:
    refused = (outcome.considered & outcome.rejected).nonzero()[0]
    verdicts: Json = {}
    for row in refused:
        status = outcome.status(int(row))
        assert status is not None, "a refused row has a status"
        if status.code is Code.ERROR:  # upstream wraps errors before it keeps them
            error = PluginError(status.plugin, "Filter", status.message)
            status = Status(status.code, (str(error),), status.plugin)
        verdicts[attempt.nodes.node(int(row)).name] = _status(status)
    return verdicts


def _scored(world: World, attempt: AttemptResult, decision: Bind) -> Json:
    outcome = attempt.outcome
    assert outcome is not None, "a pod is placed only after its nodes were filtered"
    rows, scores = outcome.feasible, attempt.scores
    if scores is None or len(scores.totals) != len(rows):
        try:
            world.cycle.runner.score(attempt, rows)
        except PluginError as error:
            return {"feasible": [], "error": str(error)}
        scores = attempt.scores
        assert scores is not None, "just scored"
    names = [attempt.nodes.node(row).name for row in rows]
    highest = scores.totals.max()
    best = sorted(
        name for name, total in zip(names, scores.totals, strict=True) if total == highest
    )
    fields: Json = {
        "scores": _scores(names, scores),
        "skippedScorePlugins": sorted(scores.skipped),
        "best": best,
    }
    if not attempt.profile.score:
        fields["noScorePlugins"] = True
    elif decision.node_name == attempt.pod.status.nominated_node_name:
        fields["nominatedShortcut"] = decision.node_name
    elif decision.node_name not in best:
        # Not in the format: shows a choice that contradicts the scores.
        fields["best"] = [decision.node_name]
    devices = attempt.before.states.get(DynamicResources.name)
    if isinstance(devices, PodState) and devices.nodes:
        fields["draAllocations"] = {
            name: [[_allocated(chosen) for chosen in devices] for devices in claims]
            for name in names
            if (claims := devices.nodes.get(name)) is not None
        }
    return fields


def _allocated(chosen: ChosenDevice) -> Json:
    driver, pool, device = chosen.device.id
    found: Json = {
        "request": chosen.request.full_name,
        "driver": driver,
        "pool": pool,
        "device": device,
    }
    if chosen.request.admin_access:
        found["adminAccess"] = True
    if chosen.consumed:
        found["consumedCapacity"] = {name: a.text for name, a in chosen.consumed.items()}
    return found


def _scores(names: list[str], scores: Scores) -> Json:
    return {
        name: {
            "total": int(scores.totals[place]),
            "plugins": {part.plugin: int(part.weighted[place]) for part in scores.parts},
            "raw": {part.plugin: int(part.raw[place]) for part in scores.parts},
        }
        for place, name in enumerate(names)
    }


def _looked_at(before: PreFiltered) -> list[str] | None:
    if before.node_names is None or before.rejection is not None:
        return None
    return sorted(before.node_names)


def _post_filter(result: PostFilterResult) -> Json:
    nominated = result.nominated_node or ""
    fields: Json = {
        **_status(result.status),
        "nominatedNode": nominated,
        "victims": {},
        "candidates": {},
        "clearsNomination": result.nominated_node == "",
    }
    if result.status.code is Code.SUCCESS:
        fields["victims"] = {nominated: [pod.key for pod in result.victims]}
        fields["candidates"] = {
            candidate.node_name: {
                "victims": [pod.key for pod in candidate.victims],
                "numPDBViolations": candidate.pdb_violations,
            }
            for candidate in result.candidates
        }
    return fields


def _status(status: Status) -> Json:
    return {
        "plugin": status.plugin,
        "code": status.code.value,
        "reasons": list(status.reasons),
    }
