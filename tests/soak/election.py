"""Who leads, seen from outside: what the lease says, and what each scheduler says of itself."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import aiohttp

from soak.api import LEASE, Api
from soak.processes import LEASE_SECONDS, SchedulerProcess

_LOOK_SECONDS = 0.5
_ASK_SECONDS = 10.0
MOST_WITHOUT_LEADER = 6.0 * LEASE_SECONDS
"""Expiry, the other's next try, and a busy machine."""
MOST_DEAF = 20.0
"""Seconds without an answer of /livez after which a scheduler counts as stuck."""
START_SECONDS = 30.0


class Election:
    """Looks at lease, leaders and health twice a second."""

    def __init__(
        self, session: aiohttp.ClientSession, api: Api, schedulers: Sequence[SchedulerProcess]
    ) -> None:
        self._session = session
        self._api = api
        self._schedulers = schedulers
        self._well = {scheduler.name: time.monotonic() for scheduler in schedulers}
        self._held = time.monotonic()
        self.leader: SchedulerProcess | None = None
        self.changes = 0
        self.longest_gap = 0.0
        self.several: list[str] = []
        self.deaf: dict[str, float] = {}

    def excuse(self, name: str = "") -> None:
        """A process was killed, or the API server is away: times count from now."""
        if name:
            self._well[name] = time.monotonic() + START_SECONDS
        else:
            self._held = time.monotonic() + LEASE_SECONDS

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.gather(self._look_at_lease(), self._look_at_schedulers())
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look_at_lease(self) -> None:
        try:
            status, lease = await self._api.call("GET", LEASE)
        except (aiohttp.ClientError, TimeoutError, OSError):
            self.excuse()
            return
        if status == 200 and _is_good(lease["spec"]):
            self._held = max(self._held, time.monotonic())
        self.longest_gap = max(self.longest_gap, time.monotonic() - self._held)

    async def _look_at_schedulers(self) -> None:
        leading = await asyncio.gather(*map(self._leads, self._schedulers))
        leaders = [s for s, leads in zip(self._schedulers, leading, strict=True) if leads]
        if len(leaders) > 1:
            # The two were asked one after the other: ask again before accusing.
            again = await asyncio.gather(*map(self._leads, leaders))
            if all(again):
                self.several.append(f"{time.strftime('%X')} " + ", ".join(s.name for s in leaders))
        elif leaders and leaders[0] is not self.leader:
            self.leader = leaders[0]
            self.changes += 1

    async def _leads(self, scheduler: SchedulerProcess) -> bool:
        root = f"https://127.0.0.1:{scheduler.port}"
        timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
        now = time.monotonic()
        try:
            async with self._session.get(f"{root}/livez", ssl=False, timeout=timeout) as answer:
                if answer.status == 200:
                    self._well[scheduler.name] = max(self._well[scheduler.name], now)
            async with self._session.get(f"{root}/metrics", ssl=False, timeout=timeout) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError):
            text = ""
        silence = time.monotonic() - self._well[scheduler.name]
        self.deaf[scheduler.name] = max(self.deaf.get(scheduler.name, 0.0), silence)
        lines = text.splitlines()
        return any(
            line.startswith("leader_election_master_status{") and line.endswith(" 1")
            for line in lines
        )


def _is_good(spec: dict[str, object]) -> bool:
    if not spec.get("holderIdentity"):
        return False
    renewed = datetime.fromisoformat(str(spec["renewTime"]))
    age = (datetime.now(UTC) - renewed).total_seconds()
    return age <= float(str(spec["leaseDurationSeconds"]))
