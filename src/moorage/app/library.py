"""The scheduler as a library: an object to build and run in a program of one's own.

`moorage.KubeScheduler` is its public name. Owns how options are laid over a configuration, and
which clients are closed at the end. There is no port, no election and no ledger here: `process` is
the scheduler with all of that, and `cli.scheduler.scheduler_command` wraps it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from moorage.app.plugin_faults import report_faults
from moorage.app.reload import subject
from moorage.config import FeatureGates, KubeSchedulerConfiguration, KubeSchedulerProfile
from moorage.config.as_built import with_extender_resources
from moorage.config.decoding import as_map
from moorage.config.documents import parse_document
from moorage.config.loading import load_config
from moorage.config.types import API_VERSION, KIND
from moorage.engine.clock import WallClock
from moorage.errors import ConfigError, shown
from moorage.framework.faults import DEFAULT_ROW
from moorage.framework.pacing import DEFAULT_CALL_SECONDS
from moorage.framework.plugin import Plugin
from moorage.kube.access_discovery import scheduler_access
from moorage.kube.client import KubeClient, user_agent
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.simulator.world import full_registry

RecorderFactory = Callable[[KubeClient], EventRecorder]


class KubeScheduler:
    """Schedules the pods of a live cluster: `start`, `wait_for_handlers_sync`, `run`, `stop`.

    `config` is a file or a KubeSchedulerConfiguration as plain values; `profiles`, `extenders` and
    the options that follow them replace what it says, in the same form as there. `plugins` are
    known beside the in-tree ones, and a profile enables them by name. Mistakes in any of these are
    a `ConfigError` at once; nothing is sent before `start`.

    A `client` stays the caller's to close. Without one, `kubeconfig` and `master` say where the API
    server is, or else the service account of the pod that this runs in.
    """

    def __init__(
        self,
        client: KubeClient | None = None,
        *,
        kubeconfig: str = "",
        master: str = "",
        config: str | Path | Mapping[str, Any] | None = None,
        plugins: Iterable[type[Plugin]] = (),
        profiles: Sequence[Mapping[str, Any]] | None = None,
        extenders: Sequence[Mapping[str, Any]] | None = None,
        percentage_of_nodes_to_score: int | None = None,
        parallelism: int | None = None,
        pod_initial_backoff_seconds: int | None = None,
        pod_max_backoff_seconds: int | None = None,
        pod_max_in_unschedulable_pods_seconds: float = 300,
        plugin_call_seconds: float = DEFAULT_CALL_SECONDS,
        feature_gates: str = "",
        recorder_factory: RecorderFactory = EventRecorder,
        profile_capturer: Callable[[KubeSchedulerProfile], None] | None = None,
    ) -> None:
        _check_seconds(
            "pod_max_in_unschedulable_pods_seconds", pod_max_in_unschedulable_pods_seconds
        )
        _check_seconds("plugin_call_seconds", plugin_call_seconds)
        gates = FeatureGates.parse(feature_gates)
        self.config = _configuration(
            config,
            gates,
            profiles=profiles,
            extenders=extenders,
            percentageOfNodesToScore=percentage_of_nodes_to_score,
            parallelism=parallelism,
            podInitialBackoffSeconds=pod_initial_backoff_seconds,
            podMaxBackoffSeconds=pod_max_backoff_seconds,
        )
        self._scheduler = build_scheduler(
            self.config,
            full_registry(plugins),
            gates,
            WallClock(),
            max_in_unschedulable_seconds=pod_max_in_unschedulable_pods_seconds,
        )
        handle = self._scheduler.handle
        handle.calls.seconds[""] = plugin_call_seconds
        lease = self.config.leader_election
        regarding = subject(
            "Lease", "coordination.k8s.io/v1", lease.resource_namespace, lease.resource_name
        )
        report_faults(handle, regarding, row=DEFAULT_ROW)
        if profile_capturer is not None:
            for profile in with_extender_resources(self.config).profiles:
                profile_capturer(profile)
        connection = self.config.client_connection
        self._client = client
        self._access = (
            scheduler_access(kubeconfig or connection.kubeconfig, master)
            if client is None
            else client.access
        )
        self._recorder_factory = recorder_factory
        self._own_clients: list[KubeClient] = []
        self._live: LiveScheduler | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to follow the cluster; call it in the event loop that `run` will be called in."""
        if self._live is not None:
            return
        client = self._client or self._new_client("scheduler")
        recorder = self._recorder_factory(self._new_client())
        self._live = LiveScheduler(self._scheduler, client, recorder)
        self._live.follow()

    async def wait_for_handlers_sync(self, timeout: float | None = None) -> None:
        """Return when all objects that exist have been taken in; `TimeoutError` if too late."""
        async with asyncio.timeout(timeout):
            await self._started().known()

    async def run(self) -> None:
        """Schedule until `stop`, then finish what is on its way and close everything."""
        live = self._started()
        try:
            if not self._stopped:
                await live.schedule()
        finally:
            await self.close()

    def stop(self) -> None:
        """Have `run` return; pods that have been decided about are still bound."""
        self._stopped = True
        if self._live is not None:
            self._live.stop()

    async def close(self) -> None:
        """Stop, and end all connections that are not the caller's; harmless if repeated."""
        self.stop()
        if self._live is not None:
            await self._live.close()
        while self._own_clients:
            await self._own_clients.pop().close()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _started(self) -> LiveScheduler:
        self.start()
        assert self._live is not None
        return self._live

    def _new_client(self, agent: str = "") -> KubeClient:
        connection = self.config.client_connection
        client = KubeClient(
            self._access, qps=connection.qps, burst=connection.burst, agent=user_agent(agent)
        )
        self._own_clients.append(client)
        return client


def _configuration(
    config: str | Path | Mapping[str, Any] | None, gates: FeatureGates, **options: Any
) -> KubeSchedulerConfiguration:
    """The configuration with options laid over it; all of it is checked as a file would be."""
    if isinstance(config, str | Path):
        source, document = str(config), _read(Path(config), gates)
    else:
        source, document = "the options", config or {}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        text = msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, **document, **given})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{source}: options must be plain values: {error}") from None
    return load_config(text, source, gates)


def _check_seconds(option: str, value: object) -> None:
    if not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{option}: expected a number of seconds above 0, got {shown(value)}")


def _read(path: Path, gates: FeatureGates) -> Mapping[str, Any]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    load_config(text, str(path), gates)  # for what is wrong with the file by itself
    return as_map(parse_document(text)[0])
