"""One run of a scenario with one scheduler: what a scenario can do and what it can see."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from e2e import objects
from e2e.client import KINDS, Api, ApiError, Found, Json, wait_for
from e2e.cluster import Server, empty
from e2e.observations import event_line, of_pod
from e2e.schedulers import Scheduler
from moorage.controlplane.processes import ChildProcess

# How long "nothing happens" is watched for: beyond the whole-second rounding of a back-off of 1 s.
QUIET_SECONDS = 2.5


class Trial:
    """The stage of one scenario: an emptied cluster, a new namespace, one scheduler."""

    def __init__(self, server: Server, scheduler: Scheduler, name: str) -> None:
        self.server = server
        self.api = Api(server.admin)
        self.namespace = name
        self._scheduler = scheduler
        self._process: ChildProcess | None = None
        self._starts = 0
        self._uids: dict[str, str] = {}

    # The scheduler.

    def start(self, config: Json | None = None, gates: str = "", flags: Sequence[str] = ()) -> None:
        """Start the scheduler, with some feature gates changed and more flags."""
        self._starts += 1
        label = f"{self.namespace}-{self._starts}"
        kubeconfig = self.server.scheduler_kubeconfig
        folder = self.server.folder
        self._process = self._scheduler.start(kubeconfig, config, folder, label, gates, flags)

    def stop(self) -> int | None:
        """Ask the scheduler to end; its exit code."""
        process, self._process = self._process, None
        return None if process is None else process.stop()

    def log(self) -> str:
        """What the running scheduler has said so far."""
        assert self._process is not None, "no scheduler runs"
        return self._process.log.read_text()

    def kill(self) -> None:
        """End the scheduler without a warning."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def restart_server(self) -> None:
        """Kill the API server and start it again."""
        self.api.close()
        self.server.restart()

    # What a scenario does.

    def add_node(self, name: str, **fields: Any) -> Json:
        """Create a node."""
        return self.api.create(objects.node(name, **fields))

    def change_node(self, name: str, change: Json) -> None:
        """Merge a change into a node."""
        self.api.patch("Node", name, change)

    def set_allocatable(self, name: str, **amounts: str) -> None:
        """Change what a node has to give."""
        change = {"status": {"allocatable": amounts, "capacity": amounts}}
        self.api.patch("Node", name, change, subresource="status")

    def add(self, body: Json) -> Json:
        """Create any object; a namespaced one in the trial's namespace."""
        if KINDS[body["kind"]].namespaced:
            body["metadata"].setdefault("namespace", self.namespace)
        return self.api.create(body)

    def add_pod(self, name: str, **fields: Any) -> Json:
        """Create a pod."""
        created = self.add(objects.pod(name, **fields))
        self._uids[created["metadata"]["uid"]] = name
        return created

    def place(self, name: str, **fields: Any) -> str:
        """Create a pod and wait until the scheduler has placed it; the node's name."""
        self.add_pod(name, **fields)
        return self.bound(name)

    def add_bound(self, name: str, node: str, **fields: Any) -> None:
        """Create a pod that is on a node from the start, without the scheduler."""
        self.add_pod(name, nodeName=node, **fields)

    def change_pod(self, name: str, change: Json) -> None:
        """Merge a change into a pod."""
        self.api.patch("Pod", name, change, self.namespace)

    def delete_pod(self, name: str, grace: int | None = 0) -> None:
        """Delete a pod: at once, or with its own grace period where grace is None."""
        self.api.delete("Pod", name, self.namespace, grace)

    # What a scenario waits for.

    def pod(self, name: str) -> Json:
        """A pod as it is now."""
        return self.api.get("Pod", name, self.namespace)

    def bound(self, name: str, wait: float = 30.0) -> str:
        """Wait until the pod is on a node; the node's name."""

        def node() -> str | None:
            found: str | None = self.pod(name)["spec"].get("nodeName")
            return found

        return self._waited(f"pod {name} to be bound", node, wait)

    def refused(self, name: str, attempts: int = 1) -> None:
        """Wait until the scheduler has tried so often, and said why it failed where it says so."""

        def told() -> bool:
            if self.attempts(name) < attempts:
                return False
            condition = _condition(self.pod(name))
            return condition is not None and self._last_note(name) == condition["message"][:1000]

        self._waited(f"attempt {attempts} at pod {name}", told, 30.0)

    def stays_refused(self, name: str) -> int:
        """Let some time pass in which the scheduler should not try again; the attempts so far."""
        time.sleep(QUIET_SECONDS)
        return self.attempts(name)

    def attempts(self, name: str) -> int:
        """How many failed attempts the events tell of (a series shows its first two only)."""
        failed = [event for event in self.events(name) if event["reason"] == "FailedScheduling"]
        return sum((event.get("series") or {"count": 1})["count"] for event in failed)

    def nominated(self, name: str) -> str:
        """Wait until the pod has a nominated node; the node's name."""

        def node() -> str | None:
            found: str | None = self.pod(name)["status"].get("nominatedNodeName")
            return found

        return self._waited(f"pod {name} to be nominated", node, 30.0)

    def preempted(self, name: str) -> None:
        """Wait until the pod is being deleted for a more important one, and an event says so."""

        def told() -> bool:
            return "deletionTimestamp" in self.pod(name)["metadata"] and any(
                event["reason"] == "Preempted" for event in self.events(name)
            )

        self._waited(f"pod {name} to be preempted", told, 30.0)

    def gone(self, name: str) -> None:
        """Wait until there is no such pod."""
        self._waited(
            f"pod {name} to be gone",
            lambda: self.api.find("Pod", name, self.namespace) is None,
            30.0,
        )

    # What a scenario sees.

    def events(self, name: str) -> list[Json]:
        """The events about a pod, oldest first."""
        found = self.api.list("Event", self.namespace)
        about = [event for event in found if event["regarding"].get("name") == name]
        return sorted(about, key=lambda event: str(event.get("eventTime")))

    def observe(self, *names: str, where: bool = True) -> Json:
        """What can be seen of the pods; without `where` the node's name is left out everywhere."""
        return {name: self._observed(name, where) for name in names}

    def event_lines(self, name: str) -> list[str]:
        """The different events about a pod in the order of their first appearance."""
        lines = [event_line(event, self.plain) for event in self.events(name)]
        return list(dict.fromkeys(lines))

    def pods_per_node(self, **query: str) -> Counter[str]:
        """How many of the trial's pods are on each node."""
        pods = self.api.list("Pod", self.namespace, **query)
        return Counter(item["spec"].get("nodeName", "") for item in pods)

    def plain(self, text: str) -> str:
        """A text without the names that differ from run to run."""
        for uid, name in self._uids.items():
            text = text.replace(uid, f"<uid of {name}>")
        return text.replace(self.namespace, "<namespace>")

    def _observed(self, name: str, where: bool) -> Json:
        item = self.pod(name)
        node = item["spec"].get("nodeName")
        condition = _condition(item)
        if node is None and condition is not None and condition["reason"] != "SchedulingGated":
            # Event and condition are written by different workers.
            message = condition["message"][:1000]
            self._waited(
                f"the event that says {message!r} about {name}",
                lambda: self._last_note(name) == message,
                15.0,
            )
        elif node is not None and self._was_scheduled(item):
            self._waited(
                f"the event that pod {name} was scheduled",
                lambda: any(event["reason"] == "Scheduled" for event in self.events(name)),
                15.0,
            )
        lines = self.event_lines(name)
        if not where:
            lines = [line.removesuffix(f" to {node}") for line in lines]
        return of_pod(self.pod(name), lines, where, self.plain)

    def _last_note(self, name: str) -> str:
        """The text of the last failure (an event's note is cut at 1,024 bytes)."""
        failed = [event for event in self.events(name) if event["reason"] == "FailedScheduling"]
        return str(failed[-1]["note"])[:1000] if failed else ""

    @staticmethod
    def _was_scheduled(item: Json) -> bool:
        # A pod made with a node name has no such condition: no kubelet is there to write it.
        return _condition(item) is not None

    def wait(self, what: str, found: Callable[[], Found | None]) -> Found:
        """Wait until something is there."""
        return self._waited(what, found, 30.0)

    def _waited(self, what: str, found: Callable[[], Found | None], wait: float) -> Found:
        def checked() -> Found | None:
            if self._process is not None:
                self._process.check()
            return found()

        return wait_for(what, checked, wait)


@contextmanager
def trial(server: Server, scheduler: Scheduler, name: str) -> Iterator[Trial]:
    """An emptied cluster with a namespace of this name; the scheduler ends with the trial."""
    stage = Trial(server, scheduler, name)
    empty(stage.api)
    try:
        stage.api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {}}}
        )
    except ApiError as failure:
        if failure.code != 409:
            raise
    try:
        yield stage
    finally:
        stage.stop()
        empty(stage.api)
        stage.api.close()


Scenario = Callable[[Trial], Json]


def label(scenario: Scenario) -> str:
    """A name for the scenario that may also be part of a namespace's name."""
    module = scenario.__module__.rpartition(".")[2]
    return f"{module}-{scenario.__name__}".replace("_", "-")


def _condition(item: Json) -> Json | None:
    for condition in item.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled":
            found: Json = condition
            return found
    return None
