"""`moorage config`: look at scheduler configurations, and make them from legacy policies."""

import argparse
import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from moorage.app.config_sources import fetch_policy, policy_of, read_policy_file
from moorage.app.merged_config import config_yaml
from moorage.cli.arguments import add_command
from moorage.cli.configuration import (
    STDIN,
    read_configuration_text,
    read_text,
    source_of,
)
from moorage.cli.output import (
    BAD_INPUT,
    fail,
    print_as,
    print_json,
    print_line,
    print_yaml_text,
    warn,
)
from moorage.config import (
    FeatureGates,
    KubeSchedulerConfiguration,
    default_config,
    effective_profiles,
    encode_config,
    load_config,
)
from moorage.config.as_built import as_built
from moorage.config.difference import Difference, differences
from moorage.config.legacy_policy import parse_policy
from moorage.config.legacy_policy_conversion import (
    Conversion,
    convert_algorithm_provider,
    convert_policy,
)
from moorage.config.plugins import Implements
from moorage.errors import ConfigError, InputError, MoorageError
from moorage.kube.access_discovery import user_access
from moorage.kube.client import KubeClient

_DIFFERENT = 1
_TROUBLE = 2
_DEFAULTS = "the defaults"


def add_parser(commands: Any) -> None:
    """Add `moorage config`."""
    runs = {"view": _view, "validate": _validate, "diff": _diff, "convert-policy": _convert}
    add_command(commands, "config", runs)


def _gates(args: argparse.Namespace) -> FeatureGates:
    return FeatureGates.parse(",".join(args.feature_gates))


def _view(args: argparse.Namespace) -> int:
    config = _load(args.file, _gates(args), args.plugins)
    config = as_built(config)
    if args.output == "json":
        print_json(encode_config(config))
    else:
        print_yaml_text(lambda unicode: config_yaml(config, unicode=unicode))
    return 0


def _validate(args: argparse.Namespace) -> int:
    from moorage.cli.config_checks import check_configuration

    gates = _gates(args)
    if args.files.count(STDIN) > 1:
        raise InputError("standard input can be read only once")
    valid = True
    for path in args.files:
        try:
            text, source = read_configuration_text(path)
        except InputError as error:
            print_line(str(error))
            valid = False
            continue
        findings = check_configuration(text, gates, args.plugins)
        for error_text in findings.errors:
            print_line(f"{source}: {error_text}")
        for warning in findings.warnings:
            print_line(f"{source}: warning: {warning}")
        if not findings.errors:
            print_line(f"{source}: valid")
        valid = valid and not findings.errors
    return 0 if valid else BAD_INPUT


def _diff(args: argparse.Namespace) -> int:
    before, after = (args.before, args.after) if args.after else (None, args.before)
    try:
        if before == after == STDIN:
            raise InputError("standard input can be read only once")
        gates = _gates(args)
        sides = _load(before, gates, args.plugins), _load(after, gates, args.plugins)
        found = differences(*sides, _implemented(args.plugins))
    except MoorageError as error:
        fail(str(error))
        return _TROUBLE
    if args.output == "json":
        print_json([_plain_difference(one) for one in found])
    elif found:
        print_line(f"--- {source_of(before) if before else _DEFAULTS}")
        print_line(f"+++ {source_of(after)}")
        for profile, group in itertools.groupby(found, key=lambda one: one.profile):
            if profile is not None:
                print_line(f"profile {profile}:")
            for one in group:
                print_line(("  " if profile is not None else "") + _line(one))
    return _DIFFERENT if found else 0


def _implemented(plugins: Sequence[str]) -> Implements:
    """Who knows which plugins there are, for which extension points."""
    from moorage.simulator.world import full_registry

    return full_registry(files=plugins).implements


def _load(
    path: str | None, gates: FeatureGates, plugins: Sequence[str]
) -> KubeSchedulerConfiguration:
    """A configuration from which a scheduler could be built."""
    implements = _implemented(plugins)
    if path is None:
        return default_config(gates)
    text, source = read_configuration_text(path)
    config = load_config(text, source, gates)
    try:
        effective_profiles(config, implements)
        as_built(config)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    return config


def _line(one: Difference) -> str:
    subject = f"{one.path}: " if one.path else ""
    if one.before is None:
        return f"+ {subject}{_shown(one.after)}"
    if one.after is None:
        return f"- {subject}{_shown(one.before)}"
    return f"~ {subject}{_shown(one.before)} -> {_shown(one.after)}"


def _shown(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "[]"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _plain_difference(one: Difference) -> dict[str, Any]:
    fields = {"profile": one.profile, "path": one.path, "before": one.before, "after": one.after}
    return {name: value for name, value in fields.items() if value is not None}


def _convert(args: argparse.Namespace) -> int:
    conversion = _conversion(args)
    if conversion.refused and not args.drop_unsupported:
        for refused in conversion.refused:
            fail(f"{_policy_source(args)}: no counterpart in v1.37: {refused}")
        return fail("nothing was converted; --drop-unsupported leaves these out")
    for dropped in conversion.dropped:
        warn(f"{_policy_source(args)}: {dropped}")
    print_as(args.output, conversion.document)
    return 0


def _conversion(args: argparse.Namespace) -> Conversion:
    gates = _gates(args)
    if args.algorithm_provider is not None:
        return convert_algorithm_provider(
            args.algorithm_provider, gates=gates, scheduler_name=args.scheduler_name
        )
    try:
        return convert_policy(_policy(args), gates=gates, scheduler_name=args.scheduler_name)
    except ConfigError as error:
        raise ConfigError(f"{_policy_source(args)}: {error}") from error


def _policy(args: argparse.Namespace) -> Mapping[str, object]:
    if args.configmap is not None:
        return asyncio.run(_from_cluster(args.kubeconfig, *args.configmap))
    if args.file == STDIN:
        document = parse_policy(read_text(STDIN))
    else:
        document = read_policy_file(args.file)
    return policy_of(document) if document.get("kind") == "ConfigMap" else document


async def _from_cluster(kubeconfig: str, namespace: str, name: str) -> Mapping[str, object]:
    async with KubeClient(user_access(kubeconfig)) as client:
        return await fetch_policy(client, namespace, name)


def _policy_source(args: argparse.Namespace) -> str:
    if args.algorithm_provider is not None:
        return f"algorithm provider {args.algorithm_provider}"
    if args.configmap is not None:
        return f"ConfigMap {'/'.join(args.configmap)}"
    return source_of(args.file)
