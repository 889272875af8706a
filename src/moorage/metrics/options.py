"""What the metrics flags say, as plain values, and which values they may have.

Owns the names, the limits and upstream's sentences about them, and reading the file that
`--allow-metric-labels-manifest` names. What hidden, disabled and limited metrics are is decided
where metrics are kept.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from moorage.config.documents import parse_document
from moorage.config.feature_gates import BINARY_VERSION
from moorage.config.field_errors import go_json, invalid, quoted
from moorage.errors import ConfigError

_METRIC = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = "[a-zA-Z_][a-zA-Z0-9_]*"
_KEY = re.compile(rf"{_METRIC},{_LABEL}")
_PATH = "metrics"


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Which metrics are shown, and which values their labels may have."""

    show_hidden_metrics_for_version: str = ""
    disabled_metrics: tuple[str, ...] = ()
    allow_metric_labels: Mapping[str, str] = field(default_factory=dict)
    """From `metric,label` to the allowed values, separated by commas."""
    allow_metric_labels_manifest: str = ""

    def errors(self) -> list[str]:
        errors = [*self._version_errors(), *self._disabled_errors()]
        errors += allow_list_errors(f"{_PATH}.allowListMapping", self.allow_metric_labels)
        if self.allow_metric_labels_manifest:
            errors += self._manifest_errors()
            if self.allow_metric_labels:
                text = "cannot specify both allowListMapping and allowListMappingManifest"
                errors.append(f"{_PATH}: Invalid value: {self._shown()}: {text}")
        return errors

    def _version_errors(self) -> list[str]:
        previous = str(BINARY_VERSION.before())
        if self.show_hidden_metrics_for_version in ("", previous):
            return []
        text = (
            f"must be omitted or have the value '{previous}'; "
            "only the previous minor version is allowed"
        )
        path = f"{_PATH}.showHiddenMetricsForVersion"
        return [invalid(path, self.show_hidden_metrics_for_version, text)]

    def _disabled_errors(self) -> list[str]:
        wrong = [name for name in self.disabled_metrics if not re.fullmatch(_METRIC, name)]
        if not wrong:
            return []
        text = (
            f"must be fully qualified metric names matching {quoted(f'^{_METRIC}$')}, "
            f"got {quoted(wrong[0])}"
        )
        return [invalid(f"{_PATH}.disabledMetrics", list(self.disabled_metrics), text)]

    def _manifest_errors(self) -> list[str]:
        path = f"{_PATH}.allowListMappingManifest"
        try:
            lists = read_allow_lists(self.allow_metric_labels_manifest)
        except ConfigError as error:
            return [invalid(path, self.allow_metric_labels_manifest, str(error))]
        wrong = allow_list_errors(path, lists)
        if not wrong:
            return []
        text = f"invalid allow list mapping in manifest: [{' '.join(wrong)}]"
        return [invalid(path, self.allow_metric_labels_manifest, text)]

    def _shown(self) -> str:
        fields = {
            "showHiddenMetricsForVersion": self.show_hidden_metrics_for_version,
            "disabledMetrics": list(self.disabled_metrics),
            "allowListMapping": dict(self.allow_metric_labels),
            "allowListMappingManifest": self.allow_metric_labels_manifest,
        }
        return go_json({name: value for name, value in fields.items() if value})


def allow_list_errors(path: str, lists: Mapping[str, str]) -> list[str]:
    """A complaint if a key does not name a metric and one of its labels."""
    if all(_KEY.fullmatch(key) for key in lists):
        return []
    text = (
        f"must have keys with format `metricName,labelName` where metricName matches "
        f"{quoted(_METRIC)} and labelName matches {quoted(_LABEL)}"
    )
    return [invalid(path, dict(sorted(lists.items())), text)]


def read_allow_lists(path: str) -> Mapping[str, str]:
    """The allow-lists in a manifest file, a flat map; a `ConfigError` says what is wrong."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"failed to read allow list manifest: open {path}: {reason}") from None
    try:
        document, _ = parse_document(data)
    except ConfigError as error:
        raise ConfigError(f"failed to parse allow list manifest: {error}") from None
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ConfigError("failed to parse allow list manifest: expected a map of strings")
    lists = {}
    for key, value in document.items():
        if isinstance(value, Mapping | list):
            raise ConfigError(
                f"failed to parse allow list manifest: the values of {quoted(str(key))} must be "
                "a string"
            )
        lists[str(key)] = _scalar(value)
    return lists


def _scalar(value: object) -> str:
    if value is None:
        return ""
    return go_json(value) if isinstance(value, bool) else str(value)
