"""The faults of a soak, one after the other.

The first tenth of a run is without, so that memory has a start to be compared with. Until the
middle everything happens; after that processes live on, so that whatever grows has time to.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from soak.api import Api
from soak.election import Election
from soak.processes import LEASE_SECONDS, Moorage, SchedulerProcess
from soak.proxy import Proxy

QUIET_SHARE, KILLING_SHARE = 0.1, 0.5
_PAUSE_SECONDS = 5.0


class Faults:
    """Does one harm after the other, and says which."""

    def __init__(
        self,
        api: Api,
        proxy: Proxy,
        server: Moorage,
        schedulers: list[SchedulerProcess],
        election: Election,
        generator: random.Random,
        say: Callable[[str], None],
    ) -> None:
        self._api = api
        self._proxy = proxy
        self._server = server
        self._schedulers = schedulers
        self._election = election
        self._random = generator
        self._say = say
        self.count = 0

    async def run(self, seconds: float) -> None:
        """Begin after the quiet time and end some seconds before the run does."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await asyncio.sleep(seconds * QUIET_SHARE)
        gentle = [self._cut, self._delay, self._refuse]
        harsh = [self._kill_leader, self._restart_server, self._kill_standby]
        turn = 0
        while loop.time() < begin + seconds * 0.95 - _PAUSE_SECONDS:
            kills = loop.time() < begin + seconds * KILLING_SHARE and turn % 2 == 0
            act = harsh[turn // 2 % len(harsh)] if kills else self._random.choice(gentle)
            turn += 1
            await self._do(act)
            await asyncio.sleep(_PAUSE_SECONDS + self._random.uniform(0, _PAUSE_SECONDS))

    async def _do(self, act: Callable[[], Awaitable[str]]) -> None:
        self.count += 1
        self._say(await act())

    async def _cut(self) -> str:
        return f"cut {self._proxy.cut()} sockets"

    async def _delay(self) -> str:
        self._proxy.delay = self._random.uniform(0.01, 0.2)
        said = f"delayed everything by {self._proxy.delay * 1000:.0f} ms for 3 s"
        await asyncio.sleep(3.0)
        self._proxy.delay = 0.0
        return said

    async def _refuse(self) -> str:
        self._proxy.refuse = self._random.choice((429, 500, 503))
        said = f"answered every request with {self._proxy.refuse} for 2 s"
        self._proxy.cut()
        await asyncio.sleep(2.0)
        self._proxy.refuse = 0
        return said

    async def _kill_leader(self) -> str:
        leader = self._election.leader or self._schedulers[0]
        return await self._kill(leader, f"killed the leader, {leader.name}")

    async def _kill_standby(self) -> str:
        standby = next(s for s in self._schedulers if s is not self._election.leader)
        return await self._kill(standby, f"killed the other, {standby.name}")

    async def _kill(self, scheduler: SchedulerProcess, said: str) -> str:
        self._election.excuse(scheduler.name)
        scheduler.kill()
        await asyncio.sleep(1.0)
        scheduler.start()
        self._election.excuse(scheduler.name)
        await asyncio.sleep(2.0 * LEASE_SECONDS)
        return said

    async def _restart_server(self) -> str:
        self._server.kill()
        await asyncio.sleep(1.0)
        self._server.start()
        await self._api.persistently("GET", "/version")
        return "killed the API server and started it from its data"
