"""What a person wants explained, found in a world by the name they typed.

Owns finding pods and profiles and the sentences for what is not there; explains nothing itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from moorage.errors import InputError
from moorage.framework.profile import Profile
from moorage.model.pod import Pod
from moorage.simulator.world import World


class Subject(NamedTuple):
    """A pod, and the node it is on (None: it waits)."""

    pod: Pod
    node: str | None


def find_subject(world: World, name: str, namespace: str = "default", where: str = "") -> Subject:
    """The pod called `namespace/name`; a bare name is looked for in `namespace`, then anywhere.

    `where` says in messages what was read.
    """
    known = [Subject(pod, None) for pod in world.pending]
    known += [Subject(pod, node) for pod, node in world.state.placed_pods()]
    found = _named(known, name, namespace)
    if found is not None:
        return found
    among = f"the {len(known)} pods that wait or run{f' in {where}' if where else ''}"
    raise InputError(
        f"pod {name} is not among {among}; pods are named NAMESPACE/NAME, or NAME where that is "
        "unique"
    )


def find_waiting_pod(world: World, name: str) -> Pod:
    """The pod of that name among those without a node."""
    found = _named([Subject(pod, None) for pod in world.pending], name, "default")
    if found is None:
        found = find_subject(world, name)
        raise InputError(
            f"pod {found.pod.key} is on node {found.node} already; only pods without a node are "
            "decided"
        )
    return found.pod


def _named(known: Sequence[Subject], name: str, namespace: str) -> Subject | None:
    if "/" in name:
        found = [subject for subject in known if subject.pod.key == name]
    else:
        found = [subject for subject in known if subject.pod.name == name]
        own = [subject for subject in found if subject.pod.namespace == namespace]
        found = own or found
    if len(found) > 1:
        keys = ", ".join(sorted(subject.pod.key for subject in found))
        raise InputError(f"several pods are called {name}: {keys}; name one in full")
    return found[0] if found else None


def profile_of(world: World, pod: Pod, wanted: str = "") -> Profile:
    """The profile that schedules the pod, or the one that is wanted whatever the pod says."""
    if wanted:
        return named_profile(world, wanted)
    name = pod.spec.scheduler_name
    profile = world.profiles.get(name)
    if profile is not None:
        return profile
    known = ", ".join(sorted(world.profiles))
    raise InputError(
        f"pod {pod.key} is another scheduler's: its schedulerName is {name}, and the profiles are: "
        f"{known}; --profile explains it with one of them"
    )


def named_profile(world: World, name: str) -> Profile:
    """The profile of a name that was asked for."""
    profile = world.profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(world.profiles))
        raise InputError(f"--profile: there is no profile {name}; there are: {known}")
    return profile
