"""What this process is: its build, its versions, its feature gates.

Owns the constant metrics that dashboards join others with. Major and minor are those of the
kube-scheduler whose behaviour this is; what is Moorage's own stands in `moorage_build_info`.
"""

import platform
import sys
from collections.abc import Iterable, Sequence

from moorage.config.feature_gates import FeatureGates
from moorage.config.gate_table import Stage
from moorage.metrics.families import Gauge, LabelValues, Stability
from moorage.metrics.registry import MetricsRegistry
from moorage.version import KUBERNETES_VERSION, __version__

_BUILD_LABELS = (
    *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date"),
    *("go_version", "compiler", "platform"),
)


def register_component(registry: MetricsRegistry, gates: FeatureGates) -> None:
    """Add what is constant from the start."""

    def constant(
        name: str,
        help_text: str,
        labels: Sequence[str],
        stability: Stability,
        values: Iterable[tuple[LabelValues, bool]],
    ) -> None:
        family = registry.register(Gauge(name, help_text, labels, stability))
        for label_values, value in values:
            family.labels(*label_values).set(1 if value else 0)

    constant(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, "
        "git tree state, build date, Go version, and compiler from which Kubernetes was built, "
        "and platform on which it is running.",
        _BUILD_LABELS,
        "BETA",
        [(_build(), True)],
    )
    constant(
        "moorage_build_info",
        "A metric with a constant '1' value labeled by the version of Moorage and of Python.",
        ("version", "python_version", "implementation"),
        "",
        [((__version__, platform.python_version(), sys.implementation.name), True)],
    )
    constant(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
        "BETA",
        (
            ((one.name, "" if one.stage is Stage.GA else one.stage.value), one.enabled)
            for one in gates.known()
        ),
    )
    effective = gates.version
    versions = (str(effective.emulation), str(effective.min_compatibility))
    constant(
        "version_info",
        "Provides the compatibility version info of the component. The component label is the "
        "name of the component, usually kube, but is relevant for aggregated-apiservers.",
        ("component", "binary", "emulation", "min_compat"),
        "ALPHA",
        [(("kube", KUBERNETES_VERSION.lstrip("v"), *versions), True)],
    )


def _build() -> LabelValues:
    major, minor, *_ = KUBERNETES_VERSION.lstrip("v").split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    # No Go and no commit stand behind it; empty values are what Prometheus takes for "none".
    return (
        *(major, minor, KUBERNETES_VERSION, "", "", "", "", sys.implementation.name),
        f"{platform.system().lower()}/{machine}",
    )
