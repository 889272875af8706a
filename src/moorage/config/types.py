"""The KubeSchedulerConfiguration of `kubescheduler.config.k8s.io/v1`, as frozen values.

Owns the fields, their names in a file, and their widths. An attribute's default is what an
absent field means before defaulting; `defaulting` fills in the rest. Must not read files,
apply rules or know any plugin's arguments.
"""

import enum
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from moorage.model.duration import Duration

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ExtensionPoint(enum.Enum):
    """A place in the scheduling cycle where plugins run; the value is its name in a file."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"


class ConfigValue(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What all configuration values share."""


class PluginRef(ConfigValue, frozen=True):
    """A plugin named in a plugin set; a weight of 0 means that none was given."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(ConfigValue, frozen=True):
    """What is switched on and off at one extension point; `*` in `disabled` stands for all."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(ConfigValue, frozen=True):
    """The plugin sets of a profile: one per extension point, and `multi_point` for all of them."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()

    def at(self, point: ExtensionPoint) -> PluginSet:
        """The set configured at one extension point, MultiPoint left aside."""
        chosen: PluginSet = getattr(self, point.name.lower())
        return chosen

    def enabled_names(self) -> frozenset[str]:
        """Every plugin that is enabled anywhere, MultiPoint included."""
        return frozenset(ref.name for chosen in self._sets() for ref in chosen.enabled)

    def _sets(self) -> Iterator[PluginSet]:
        yield self.multi_point
        for point in ExtensionPoint:
            yield self.at(point)


class PluginArgs(ConfigValue, frozen=True):
    """Base of the arguments of the plugins that ship with the scheduler (`args`)."""


class PluginConfig(ConfigValue, frozen=True):
    """The arguments given to one plugin.

    Once loaded, `args` is a `PluginArgs` for a plugin that ships with the scheduler; for any other
    plugin it is what the user wrote, as plain values.
    """

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(ConfigValue, frozen=True):
    """A named choice of plugins with their arguments.

    Once loaded, `plugins` is merged over the defaults but not expanded, and `plugin_config` has an
    entry for each enabled plugin that takes arguments.
    """

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args_for(self, name: str) -> object:
        """The arguments of one plugin (see `PluginConfig`), or `None` where it has none."""
        return next((entry.args for entry in self.plugin_config if entry.name == name), None)


class LeaderElectionConfiguration(ConfigValue, frozen=True):
    """Which lease is held, and for how long."""

    leader_elect: bool = True
    lease_duration: Duration = Duration.of_seconds(15)
    renew_deadline: Duration = Duration.of_seconds(10)
    retry_period: Duration = Duration.of_seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(ConfigValue, frozen=True):
    """How the API server is reached."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class ExtenderManagedResource(ConfigValue, frozen=True):
    """An extended resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(ConfigValue, frozen=True):
    """Certificates for talking to an extender; data wins over a file."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfig(ConfigValue, frozen=True):
    """An HTTP service that takes part in decisions; an empty verb is one it does not answer."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(ConfigValue, frozen=True):
    """The whole configuration of a scheduler.

    `enable_contention_profiling` is `None` only before defaulting.
    """

    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False
