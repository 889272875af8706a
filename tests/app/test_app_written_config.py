"""The configuration as it is written, compared with files of the real kube-scheduler v1.37.1."""

import logging
from pathlib import Path
from typing import Any

import pytest

from app.recorded import recorded
from moorage.app.merged_config import complete, config_yaml, log_or_write_config
from moorage.app.options import Options, parse_options
from moorage.config import KubeSchedulerConfiguration, default_config, load_config
from moorage.config.as_built import as_built
from moorage.errors import InputError
from moorage.log_fields import V, fields_of

CASES = [pytest.param(case, id=case["name"]) for case in recorded("written-configs.json")]
EXTRA_ARGS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}
  pluginConfig:
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 5}}
  - {name: NodeAffinity, args: {}}
"""


def config_of(case: dict[str, Any], directory: Path) -> KubeSchedulerConfiguration:
    words = list(case["args"])
    if case["config"] is not None:
        path = directory / "scheduler.yaml"
        path.write_text(case["config"], "utf-8")
        words.append(f"--config={path}")
    options = parse_options(words)
    assert isinstance(options, Options)
    return complete(options)


@pytest.mark.parametrize("case", CASES)
def test_cli_013_the_file_is_the_one_that_upstream_writes(
    case: dict[str, Any], tmp_path: Path
) -> None:
    target = tmp_path / "written.yaml"
    log_or_write_config(config_of(case, tmp_path), str(target))
    assert target.read_text("utf-8") == case["written"]


@pytest.mark.parametrize("case", CASES)
def test_what_was_written_can_be_read_and_means_the_same(
    case: dict[str, Any], tmp_path: Path
) -> None:
    built = as_built(config_of(case, tmp_path))
    options = parse_options(case["args"])
    assert isinstance(options, Options)
    again = load_config(config_yaml(built), "written.yaml", options.gates)
    assert config_yaml(as_built(again)) == config_yaml(built)


def test_cli_014_only_arguments_of_enabled_plugins_are_shown_in_the_order_of_names() -> None:
    config = load_config(EXTRA_ARGS, "a.yaml")
    names = [entry.name for entry in as_built(config).profiles[0].plugin_config]
    assert "NodeAffinity" in [entry.name for entry in config.profiles[0].plugin_config]
    assert "NodeAffinity" not in names
    assert names == sorted(names)


def test_cli_015_at_verbosity_2_the_configuration_is_logged_and_handed_on_as_built(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = load_config(EXTRA_ARGS, "a.yaml")
    assert log_or_write_config(config, "") is config
    with caplog.at_level(V(2), logger="moorage"):
        assert log_or_write_config(config, "") == as_built(config) != config
    (record,) = caplog.records
    assert record.getMessage() == "Using component config"
    assert fields_of(record) == {"config": config_yaml(as_built(config))}


def test_writing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "written.yaml"
    with caplog.at_level(logging.INFO, logger="moorage"):
        log_or_write_config(default_config(), str(path))
    (record,) = caplog.records
    assert record.getMessage() == "Wrote configuration"
    assert fields_of(record) == {"file": str(path)}


def test_a_place_that_cannot_be_written_to_is_named() -> None:
    with pytest.raises(InputError, match=r"^open /nonexistent/a: no such file or directory$"):
        log_or_write_config(default_config(), "/nonexistent/a")
