"""A scheduler inside a program: pods that ask for `tidy` are packed, and teams are kept apart.

python own_program.py KUBECONFIG
"""

import asyncio
import signal
import sys

import moorage
from one_per_team import OnePerTeam

PROFILE = {
    "schedulerName": "tidy",
    "plugins": {"filter": {"enabled": [{"name": "OnePerTeam"}]}},
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}],
                }
            },
        }
    ],
}


async def main(kubeconfig: str) -> None:
    """Schedule until somebody says stop."""
    scheduler = moorage.KubeScheduler(
        kubeconfig=kubeconfig,
        plugins=[OnePerTeam],
        profiles=[PROFILE],
        pod_max_backoff_seconds=5,
        profile_capturer=lambda profile: print("scheduling for", profile.scheduler_name),
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scheduler.stop)
    scheduler.start()
    await scheduler.wait_for_handlers_sync(timeout=60)
    print("all objects are known", flush=True)
    await scheduler.run()
    print("stopped")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
