"""Fixes for a pod in a cluster of a few lines."""

from collections.abc import Iterable

from framework.building import make_cycle, make_profile, make_state
from moorage.explain.fixes import smallest_fixes
from moorage.explain.report import Fix
from moorage.model.decode import decode_object
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.model.pod import Pod


def fixes_for(
    pod: Pod,
    nodes: Iterable[Node],
    pods: Iterable[Pod] = (),
    others: Iterable[ApiObject] = (),
    profile: Json | None = None,
) -> tuple[Fix, ...]:
    state = make_state(nodes, pods, others)
    return smallest_fixes(make_cycle(state), make_profile(state, profile), pod)


def changes(fixes: Iterable[Fix]) -> list[str]:
    return [fix.change for fix in fixes]


def of_kind(fixes: Iterable[Fix], kind: str) -> list[Fix]:
    return [fix for fix in fixes if fix.kind == kind]


def obj(kind: str, api_version: str, name: str, **members: object) -> ApiObject:
    document = {"kind": kind, "apiVersion": api_version, "metadata": {"name": name}, **members}
    decoded = decode_object(document, "test object")
    assert isinstance(decoded, ApiObject)
    return decoded
