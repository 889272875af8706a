"""All flags of `moorage scheduler`, in the order of the help.

Owns names, kinds, defaults and texts of upstream's, as data and word for word, and the order of all
sections. Moorage's own are in `flags_moorage`. What they mean is in `options`.
"""

from moorage.app.flag_values import (
    BOOL,
    DURATION,
    FEATURE_GATES,
    FLOAT32,
    INT32,
    LEVEL,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    VERSION,
    VMODULE,
)
from moorage.app.flags import Flag, Section
from moorage.app.flags_moorage import MOORAGE
from moorage.app.flags_serving import AUTHENTICATION, AUTHORIZATION, SECURE_SERVING
from moorage.config.feature_gates import (
    BINARY_VERSION,
    CURRENT_VERSION,
    DEFAULT_FEATURE_GATES,
    FLOOR,
)
from moorage.config.gate_table import Stage

_VERSIONS = f"kube={FLOOR}..{BINARY_VERSION}(default:"
_GATES = "\n".join(
    f"kube:{feature.name}=true|false ({feature.stage.value} - default="
    f"{'true' if feature.default else 'false'})"
    for feature in DEFAULT_FEATURE_GATES.known()
    if feature.stage in (Stage.ALPHA, Stage.BETA)
)

MISC = Section(
    "Misc",
    (
        Flag("config", STRING, "The path to the configuration file."),
        Flag(
            "master",
            STRING,
            "The address of the Kubernetes API server (overrides any value in kubeconfig)",
        ),
        Flag(
            "write-config-to",
            STRING,
            "If set, write the configuration values to this file and exit.",
        ),
    ),
)

DEPRECATED = Section(
    "Deprecated",
    (
        Flag(
            "contention-profiling",
            BOOL,
            "DEPRECATED: enable block profiling, if profiling is enabled. This parameter is "
            "ignored if a config file is specified in --config.",
            default="true",
        ),
        Flag(
            "kube-api-burst",
            INT32,
            "DEPRECATED: burst to use while talking with kubernetes apiserver. This "
            "parameter is ignored if a config file is specified in --config.",
            default="100",
        ),
        Flag(
            "kube-api-content-type",
            STRING,
            "DEPRECATED: content type of requests sent to apiserver. This parameter is "
            "ignored if a config file is specified in --config.",
            default="application/vnd.kubernetes.protobuf",
        ),
        Flag(
            "kube-api-qps",
            FLOAT32,
            "DEPRECATED: QPS to use while talking with kubernetes apiserver. This parameter "
            "is ignored if a config file is specified in --config.",
            default="50",
        ),
        Flag(
            "kubeconfig",
            STRING,
            "DEPRECATED: path to kubeconfig file with authorization and master location "
            "information. This parameter is ignored if a config file is specified in "
            "--config.",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            "DEPRECATED: the maximum time a pod can stay in unschedulablePods. If a pod "
            "stays in unschedulablePods for longer than this value, the pod will be moved "
            "from unschedulablePods to backoffQ or activeQ. This flag is deprecated and will "
            "be removed in a future version.",
            default="5m0s",
        ),
        Flag(
            "profiling",
            BOOL,
            "DEPRECATED: enable profiling via web interface host:port/debug/pprof/. This "
            "parameter is ignored if a config file is specified in --config.",
            default="true",
        ),
    ),
)

LEADER_ELECTION = Section(
    "Leader election",
    (
        Flag(
            "leader-elect",
            BOOL,
            "Start a leader election client and gain leadership before executing the main "
            "loop. Enable this when running replicated components for high availability.",
            default="true",
        ),
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            "The duration that non-leader candidates will wait after observing a leadership "
            "renewal until attempting to acquire leadership of a led but unrenewed leader "
            "slot. This is effectively the maximum duration that a leader can be stopped "
            "before it is replaced by another candidate. This is only applicable if leader "
            "election is enabled.",
            default="15s",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            "The interval between attempts by the acting master to renew a leadership slot "
            "before it stops leading. This must be less than the lease duration. This is "
            "only applicable if leader election is enabled.",
            default="10s",
        ),
        Flag(
            "leader-elect-resource-lock",
            STRING,
            "The type of resource object that is used for locking during leader election. "
            "Supported options are 'leases'.",
            default="leases",
        ),
        Flag(
            "leader-elect-resource-name",
            STRING,
            "The name of resource object that is used for locking during leader election.",
            default="kube-scheduler",
        ),
        Flag(
            "leader-elect-resource-namespace",
            STRING,
            "The namespace of resource object that is used for locking during leader election.",
            default="kube-system",
        ),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            "The duration the clients should wait between attempting acquisition and renewal "
            "of a leadership. This is only applicable if leader election is enabled.",
            default="2s",
        ),
    ),
)

FEATURE_GATE = Section(
    "Feature gate",
    (
        Flag(
            "emulated-version",
            STRINGS,
            "The versions different components emulate their capabilities (APIs, features, "
            "...) of.\n"
            "If set, the component will emulate the behavior of this version instead of the "
            "underlying binary version.\n"
            "Version format could only be major.minor, for example: "
            "'--emulated-version=wardle=1.2,kube=1.31'.\n"
            f"Options are: {_VERSIONS}{CURRENT_VERSION.emulation})\n"
            'If the component is not specified, defaults to "kube"',
        ),
        Flag(
            "feature-gates",
            FEATURE_GATES,
            "Comma-separated list of component:key=value pairs that describe feature gates "
            "for alpha/experimental features of different components.\n"
            'If the component is not specified, defaults to "kube". This flag can be '
            "repeatedly invoked. For example: --feature-gates "
            "'wardle:featureA=true,wardle:featureB=false' --feature-gates "
            f"'kube:featureC=true'Options are:\n{_GATES}",
        ),
        Flag(
            "min-compatibility-version",
            STRINGS,
            "The min version of control plane components the server should be compatible "
            "with.\n"
            "Must be less or equal to the emulated-version. Version format could only be "
            "major.minor, for example: '--min-compatibility-version=wardle=1.2,kube=1.31'.\n"
            f"Options are: {_VERSIONS}{CURRENT_VERSION.min_compatibility})\n"
            'If the component is not specified, defaults to "kube"',
        ),
    ),
)

METRICS = Section(
    "Metrics",
    (
        Flag(
            "allow-metric-labels",
            STRING_MAP,
            "The map from metric-label to value allow-list of this label. The key's format "
            "is <MetricName>,<LabelName>. The value's format is "
            "<allowed_value>,<allowed_value>...e.g. metric1,label1='v1,v2,v3', "
            "metric1,label2='v1,v2,v3' metric2,label1='v1,v2,v3'.",
        ),
        Flag(
            "allow-metric-labels-manifest",
            STRING,
            "The path to the manifest file that contains the allow-list mapping. The format "
            "of the file is the same as the flag --allow-metric-labels, i.e., \n"
            "allowListMapping:\n"
            '  "metric1,label1": "value11,value12"\n'
            '  "metric2,label2": ""\n'
            "Note that the flag --allow-metric-labels will override the manifest file.",
        ),
        Flag(
            "disabled-metrics",
            STRINGS,
            "This flag provides an escape hatch for misbehaving metrics. You must provide "
            "the fully qualified metric name in order to disable it. Disclaimer: disabling "
            "metrics is higher in precedence than showing hidden metrics.",
        ),
        Flag(
            "show-hidden-metrics-for-version",
            STRING,
            "The previous version for which you want to show hidden metrics. Only the "
            "previous minor version is meaningful, other values will not be allowed. The "
            "format is <major>.<minor>, e.g.: '1.16'. The purpose of this format is make "
            "sure you have the opportunity to notice if the next release hides additional "
            "metrics, rather than being surprised when they are permanently removed in the "
            "release after that.",
        ),
    ),
)

LOGS = Section(
    "Logs",
    (
        Flag(
            "log-flush-frequency",
            DURATION,
            "Maximum number of seconds between log flushes",
            default="5s",
        ),
        Flag(
            "log-json-info-buffer-size",
            QUANTITY,
            "[Alpha] In JSON format with split output streams, the info messages can be "
            "buffered for a while to increase performance. The default value of zero bytes "
            "disables buffering. The size can be specified as number of bytes (512), "
            "multiples of 1000 (1K), multiples of 1024 (2Ki), or powers of those (3M, 4G, "
            "5Mi, 6Gi). Enable the LoggingAlphaOptions feature gate to use this.",
        ),
        Flag(
            "log-json-split-stream",
            BOOL,
            "[Alpha] In JSON format, write error messages to stderr and info messages to "
            "stdout. The default is to write a single stream to stdout. Enable the "
            "LoggingAlphaOptions feature gate to use this.",
        ),
        Flag(
            "log-text-info-buffer-size",
            QUANTITY,
            "[Alpha] In text format with split output streams, the info messages can be "
            "buffered for a while to increase performance. The default value of zero bytes "
            "disables buffering. The size can be specified as number of bytes (512), "
            "multiples of 1000 (1K), multiples of 1024 (2Ki), or powers of those (3M, 4G, "
            "5Mi, 6Gi). Enable the LoggingAlphaOptions feature gate to use this.",
        ),
        Flag(
            "log-text-split-stream",
            BOOL,
            "[Alpha] In text format, write error messages to stderr and info messages to "
            "stdout. The default is to write a single stream to stdout. Enable the "
            "LoggingAlphaOptions feature gate to use this.",
        ),
        Flag(
            "logging-format",
            STRING,
            'Sets the log format. Permitted formats: "json" (gated by LoggingBetaOptions), "text".',
            default="text",
        ),
        Flag("v", LEVEL, "number for the log level verbosity", shorthand="v"),
        Flag(
            "vmodule",
            VMODULE,
            "comma-separated list of pattern=N settings for file-filtered logging (only "
            "works for text log format)",
        ),
    ),
)

GLOBAL = Section(
    "Global",
    (
        Flag("help", BOOL, "help for kube-scheduler", shorthand="h"),
        Flag(
            "version",
            VERSION,
            "--version, --version=raw prints version information and quits; "
            "--version=vX.Y.Z... sets the reported version",
        ),
    ),
)

SECTIONS = (
    MISC,
    SECURE_SERVING,
    AUTHENTICATION,
    AUTHORIZATION,
    DEPRECATED,
    LEADER_ELECTION,
    FEATURE_GATE,
    METRICS,
    LOGS,
    GLOBAL,
    MOORAGE,
)
"""Every section, in the order of the help."""

FILE_EXTENSIONS = {"config": ("yaml", "yml", "json")}
"""Which files a shell should offer for a flag."""

CHOICES = {
    "leader-elect-resource-lock": ("leases",),
    "legacy-algorithm-provider": ("DefaultProvider", "ClusterAutoscalerProvider"),
    "logging-format": ("text", "json"),
    "tls-min-version": ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
}
"""Values that a shell should offer for a flag."""
