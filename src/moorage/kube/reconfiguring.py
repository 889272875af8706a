"""Another configuration for a scheduler at work, without a restart.

Owns what can change while pods are being scheduled, and what cannot. The new profiles are made
beside the old ones, whatever they need to know is fetched, and then they take over between two
attempts; queue and books stay. Anything wrong is found before the scheduler is touched. Where a
configuration comes from, and who is told of the outcome, is `app.reload`'s business.
"""

import msgspec

from moorage.config import KubeSchedulerConfiguration
from moorage.errors import ConfigError
from moorage.framework.profile import build_profiles
from moorage.framework.registry import Registry
from moorage.kube.http_extender import http_extenders, source_needs
from moorage.kube.live import LiveScheduler, watched_kinds

_AT_START_ONLY = {
    "parallelism": "parallelism",
    "leader_election": "leaderElection",
    "client_connection": "clientConnection",
    "enable_profiling": "enableProfiling",
    "enable_contention_profiling": "enableContentionProfiling",
    "delay_cache_until_active": "delayCacheUntilActive",
}
"""Fields that are read once, by their names in the file."""


def fields_that_need_a_restart(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> list[str]:
    """What changed but takes effect only when the process starts."""
    return [
        name
        for attribute, name in _AT_START_ONLY.items()
        if getattr(old, attribute) != getattr(new, attribute)
    ]


def with_start_fields_of(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> KubeSchedulerConfiguration:
    """The new configuration as far as it is in force: what needs a restart is still the old."""
    kept = {attribute: getattr(old, attribute) for attribute in _AT_START_ONLY}
    return msgspec.structs.replace(new, **kept)


async def reconfigure(
    live: LiveScheduler,
    config: KubeSchedulerConfiguration,
    registry: Registry,
    sync_timeout: float = 60.0,
) -> None:
    """Go over to a validated configuration; an error leaves everything as it was.

    `ConfigError`: a plugin refuses its arguments, or the change cannot be made at run time.
    `ApiError`: objects that only the new plugins need could not be fetched in time.
    """
    scheduler = live.scheduler
    extenders = http_extenders(config)
    missing = source_needs(extenders) - live.sources
    if missing:
        raise ConfigError(
            "extenders: they need whole objects that were not kept so far "
            f"({', '.join(sorted(missing))}); restart to use them"
        )
    await live.between_attempts()
    profiles = build_profiles(config, registry, scheduler.handle)
    await live.follow_more(watched_kinds(profiles), sync_timeout)
    await live.between_attempts()
    scheduler.adopt(
        profiles,
        extenders,
        initial_backoff_seconds=config.pod_initial_backoff_seconds,
        max_backoff_seconds=config.pod_max_backoff_seconds,
    )
    live.wake()
