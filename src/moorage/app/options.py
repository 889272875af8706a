"""The options of the scheduler process: a command line as values.

Owns what each flag fills in, in which order mistakes are noticed, and what is printed when the
process is over before it began (help, version, wrong flags). What the options do to a
configuration is in `merged_config`; nothing here opens a file or a socket.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moorage.app.flag_table import SECTIONS
from moorage.app.flags import PROGRAM, CommandLine, help_text, parse, terminal_columns, usage_text
from moorage.app.logs import LoggingOptions, StreamOptions, TextFormatter
from moorage.app.version_flag import printed_version, reported_version
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, EffectiveVersion, FeatureGates
from moorage.config.field_errors import aggregate, quoted
from moorage.config.gate_table import Stage
from moorage.config.types import ClientConnectionConfiguration, LeaderElectionConfiguration
from moorage.connections.limits import ConnectionLimits
from moorage.errors import ConfigError, FlagError
from moorage.http.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    RequestHeaderOptions,
    ServingOptions,
    option_errors,
)
from moorage.log_fields import V, fields
from moorage.metrics.options import MetricsOptions
from moorage.model.duration import Duration, parse_duration
from moorage.version import KUBERNETES_VERSION

log = logging.getLogger(__name__)

T = TypeVar("T")

_DEFAULT_MAX_IN_UNSCHEDULABLE = Duration.of_seconds(300)


@dataclass(frozen=True, slots=True)
class EarlyExit:
    """The process is over: what it prints and how it ends."""

    code: int
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    """A ConfigMap, and the key of a document in it; an empty key means the only one."""

    namespace: str
    name: str
    key: str = ""

    @classmethod
    def parse(cls, text: str) -> "ConfigMapKey | None":
        """Read `namespace/name[:key]`; None if it has another form."""
        path, colon, key = text.partition(":")
        namespace, slash, name = path.partition("/")
        if not (slash and namespace and name) or "/" in name or (colon and not key):
            return None
        return cls(namespace, name, key)


@dataclass(frozen=True, slots=True)
class MoorageOptions:
    """What kube-scheduler has no flag for."""

    shadow: bool = False
    watch_config: bool = True
    config_from_configmap: str = ""
    legacy_policy_config_file: str = ""
    legacy_policy_configmap: str = ""
    legacy_algorithm_provider: str = ""
    ledger: str = ""
    """The directory of the ledger; empty keeps it in memory only."""
    ledger_memory: int = 16 << 20
    """Bytes; 0 keeps no ledger."""
    explain_page: bool = False
    explain_annotations: bool = False
    plugin: tuple[str, ...] = ()
    """Files with plugins, as `FILE.py[:Class]`."""
    plugin_call_timeout: tuple[str, ...] = ()
    """As `[PROFILE=]DURATION`."""
    plugin_faults_in_a_row: int = 10

    @property
    def plugin_call_seconds(self) -> Mapping[str, float]:
        """How long a plugin's call may take, by profile; "" stands for all others."""
        pairs = (text.rpartition("=") for text in self.plugin_call_timeout)
        return {profile: parse_duration(text).seconds for profile, _, text in pairs}

    def errors(self) -> list[str]:
        """What is wrong about plugins, and about the ledger and whoever needs it."""
        errors = []
        for text in self.plugin_call_timeout:
            try:
                positive = parse_duration(text.rpartition("=")[2]).seconds > 0
            except ValueError:
                positive = False
            if not positive:
                errors.append(
                    f"--plugin-call-timeout {text}: expected DURATION or PROFILE=DURATION, such as "
                    "30s or batch=5s, of more than 0s"
                )
        if self.plugin_faults_in_a_row < 1:
            errors.append(
                f"--plugin-faults-in-a-row {self.plugin_faults_in_a_row} must be 1 or more"
            )
        if self.ledger_memory < 0:
            errors.append(f"--ledger-memory {self.ledger_memory} must be 0 or more")
        if self.ledger_memory == 0 and self.ledger:
            errors.append("--ledger needs memory to write from, but --ledger-memory is 0")
        if self.ledger_memory == 0 and self.explain_annotations:
            errors.append("--explain-annotations needs the ledger, but --ledger-memory is 0")
        if self.shadow and self.explain_annotations:
            errors.append("--explain-annotations writes to pods, and --shadow writes nothing")
        return errors


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a command line says."""

    config_file: str = ""
    write_config_to: str = ""
    master: str = ""
    serving: ServingOptions = field(default_factory=ServingOptions)
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    logging: LoggingOptions = field(default_factory=LoggingOptions)
    leader_election: Mapping[str, Any] = field(default_factory=dict)
    """The fields of LeaderElectionConfiguration that were given; they win over a file."""
    client_connection: Mapping[str, Any] = field(default_factory=dict)
    """The fields of ClientConnectionConfiguration that were given; a file makes them void."""
    profiling: Mapping[str, bool] = field(default_factory=dict)
    """The same for the two switches about profiling."""
    pod_max_in_unschedulable_pods_duration: Duration = _DEFAULT_MAX_IN_UNSCHEDULABLE
    gates: FeatureGates = DEFAULT_FEATURE_GATES
    reported_version: str = KUBERNETES_VERSION
    moorage: MoorageOptions = MoorageOptions()
    flag_values: Mapping[str, str] = field(default_factory=dict)
    """Every flag as `FLAG:` lines and `/flagz` print it."""

    def validate(self) -> list[str]:
        """Everything that is wrong with the options themselves, in upstream's order."""
        return [
            *self.gates.version.errors(),
            *option_errors(self.serving, self.authentication, self.gates),
            *self.metrics.errors(),
            *self._moorage_errors(),
        ]

    def _moorage_errors(self) -> list[str]:
        own = self.moorage
        sources = {
            "--config": self.config_file,
            "--config-from-configmap": own.config_from_configmap,
            "--legacy-policy-config-file": own.legacy_policy_config_file,
            "--legacy-policy-configmap": own.legacy_policy_configmap,
            "--legacy-algorithm-provider": own.legacy_algorithm_provider,
        }
        used = [name for name, value in sources.items() if value]
        errors = [f"only one of {' and '.join(used)} may be given"] if len(used) > 1 else []
        for name in ("--config-from-configmap", "--legacy-policy-configmap"):
            reference = ConfigMapKey.parse(sources[name])
            has_key = name == "--config-from-configmap"
            if sources[name] and (reference is None or (reference.key and not has_key)):
                form = "namespace/name[:key]" if has_key else "namespace/name"
                errors.append(f"{name} {sources[name]} must have the form {form}")
        return errors + own.errors()


def parse_options(argv: Sequence[str]) -> Options | EarlyExit:
    """Read a command line (without the program's name)."""
    try:
        line = parse(SECTIONS, argv)
    except FlagError as error:
        usage = usage_text(SECTIONS, terminal_columns())
        return EarlyExit(1, stderr=f"{usage}\nError: {error}\n")
    if line.values["help"]:
        return EarlyExit(0, stdout=help_text(SECTIONS, terminal_columns()))
    if any(line.arguments):
        got = " ".join(quoted(word) for word in line.arguments)
        text = f"{quoted(PROGRAM)} does not take any arguments, got [{got}]"
        return EarlyExit(1, stderr=f"Error: {text}\n")
    try:
        gates = _gates(line.values)
    except ConfigError as error:
        return EarlyExit(1, stderr=_failed(str(error)))
    if (printed := printed_version(line.values["version"])) is not None:
        return EarlyExit(0, stdout=printed)
    options = _options(line, gates)
    if errors := options.logging.errors(gates):
        return EarlyExit(1, stderr=f"{aggregate(errors)}\n")
    return options


def announce(options: Options) -> None:
    """Log what the options amount to, once logging is configured."""
    for name, value, stage in options.gates.warnings():
        kind = "GA" if stage is Stage.GA else "deprecated"
        log.info(
            "Warning: setting %s feature gate. It will be removed in a future release.",
            kind,
            extra=fields(featureGate=name, value=value),
        )
    for name, shown in options.flag_values.items():
        log.log(V(1), "FLAG: --%s=%s", name, quoted(shown))


def _failed(error: str) -> str:
    """The line that kube-scheduler logs before logging is configured."""
    record = log.makeRecord(
        log.name,
        logging.ERROR,
        __file__,
        _failed.__code__.co_firstlineno,
        "command failed",
        (),
        None,
        extra=fields(err=error),
    )
    return TextFormatter().format(record) + "\n"


def _gates(values: Mapping[str, Any]) -> FeatureGates:
    version = EffectiveVersion.parse(
        values["emulated-version"], values["min-compatibility-version"]
    )
    settings = [
        f"{component}:{setting}" if component else setting
        for component, items in values["feature-gates"].items()
        for setting in items
    ]
    return FeatureGates.parse(",".join(settings), version)


def _options(line: CommandLine, gates: FeatureGates) -> Options:
    values = line.values

    def given(fields: Iterable[str], prefix: str, **others: str) -> Mapping[str, Any]:
        """What was given for fields that have the names of flags, or those of `others`."""
        flags = {field: others.get(field, prefix + field.replace("_", "-")) for field in fields}
        return {field: values[flag] for field, flag in flags.items() if flag in line.given}

    election = LeaderElectionConfiguration.__struct_fields__
    connection = ClientConnectionConfiguration.__struct_fields__
    profiling = ("profiling", "contention_profiling")
    return Options(
        config_file=values["config"],
        write_config_to=values["write-config-to"],
        master=values["master"],
        serving=_serving(values),
        authentication=_authentication(values),
        authorization=_authorization(values),
        metrics=_from_flags(MetricsOptions, values),
        logging=_logging(values),
        leader_election=given(election, "leader-elect-", leader_elect="leader-elect"),
        client_connection=given(connection, "kube-api-", kubeconfig="kubeconfig"),
        profiling={f"enable_{name}": on for name, on in given(profiling, "").items()},
        pod_max_in_unschedulable_pods_duration=values["pod-max-in-unschedulable-pods-duration"],
        gates=gates,
        reported_version=reported_version(values["version"]),
        moorage=_from_flags(MoorageOptions, values, ledger_memory=values["ledger-memory"].amount),
        flag_values=line.shown,
    )


def _from_flags(kind: type[T], values: Mapping[str, Any], prefix: str = "", **others: Any) -> T:
    """Options whose fields have the names of flags, with or without the prefix of their section."""
    for name in kind.__annotations__:
        if name not in others:
            flag = name.replace("_", "-")
            others[name] = values[prefix + flag] if prefix + flag in values else values[flag]
    return kind(**others)


def _serving(values: Mapping[str, Any]) -> ServingOptions:
    return _from_flags(
        ServingOptions,
        values,
        "tls-",
        key_file=values["tls-private-key-file"],
        sni=values["tls-sni-cert-key"],
        connections=ConnectionLimits(
            total=values["max-connections"], per_address=values["max-connections-per-address"]
        ),
    )


def _authentication(values: Mapping[str, Any]) -> AuthenticationOptions:
    headers = values["requestheader-extra-headers-prefix"]
    return _from_flags(
        AuthenticationOptions,
        values,
        "authentication-",
        token_cache_seconds=values["authentication-token-webhook-cache-ttl"].seconds,
        request_header=_from_flags(
            RequestHeaderOptions, values, "requestheader-", extra_headers_prefixes=headers
        ),
    )


def _authorization(values: Mapping[str, Any]) -> AuthorizationOptions:
    return _from_flags(
        AuthorizationOptions,
        values,
        "authorization-",
        allowed_cache_seconds=values["authorization-webhook-cache-authorized-ttl"].seconds,
        denied_cache_seconds=values["authorization-webhook-cache-unauthorized-ttl"].seconds,
    )


def _logging(values: Mapping[str, Any]) -> LoggingOptions:
    def streams(name: str) -> StreamOptions:
        size = values[f"log-{name}-info-buffer-size"].amount
        return StreamOptions(values[f"log-{name}-split-stream"], size)

    return LoggingOptions(
        format=values["logging-format"],
        flush_frequency=values["log-flush-frequency"],
        verbosity=values["v"],
        vmodule=values["vmodule"],
        text=streams("text"),
        json=streams("json"),
    )
