"""However slow, lossy and skewed: never two leaders at a time, and in the end always one."""

import asyncio
import os
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.virtual_election import Instance, LeaseStore, config, now, run_virtually
from moorage.config.types import LeaderElectionConfiguration
from moorage.kube.leader_election import Ended

TIMES = [(15, 10, 2), (3, 2.9, 2), (5, 2, 1), (2.9, 1.3, 1), (30, 29, 5), (1.5, 1.2, 0.9)]
TROUBLED_SECONDS = 120.0
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


@dataclass(frozen=True)
class Weather:
    """What happens to the instances' requests while there is trouble."""

    latency: float
    hanging: float
    lost: float
    unheard: float
    outages: float


WEATHERS = st.builds(
    Weather,
    latency=st.sampled_from([0.001, 0.05, 0.5, 3.0]),
    hanging=st.sampled_from([0.0, 0.05, 0.3]),
    lost=st.sampled_from([0.0, 0.1, 0.4]),
    unheard=st.sampled_from([0.0, 0.1, 0.4]),
    outages=st.sampled_from([0.0, 0.1, 0.5]),
)


class World:
    """Some instances, what befalls them, and who leads."""

    def __init__(
        self, times: LeaderElectionConfiguration, weather: Weather, size: int, seed: int
    ) -> None:
        self.times = times
        self.weather = weather
        self.size = size
        self.random = Random(seed)
        self.store = LeaseStore()
        self.calm = False
        self.alive: list[Instance] = []
        self.made = 0
        self.terms = 0
        self.violations: list[str] = []

    def trouble(self, _: str) -> tuple[float, float, bool, bool]:
        if self.calm:
            return 0.001, 0.001, False, False
        weather, random = self.weather, self.random
        there, back = (random.expovariate(1.0 / weather.latency) for _ in range(2))
        if random.random() < weather.hanging:
            if random.random() < 0.5:
                there += random.uniform(0, 40)
            else:
                back += random.uniform(0, 40)
        lost = random.random() < weather.lost
        return there, back, lost, random.random() < weather.unheard

    def start(self) -> None:
        self.made += 1
        instance = Instance(
            self.store,
            f"instance-{self.made}",
            self.times,
            trouble=self.trouble,
            skew=self.random.uniform(-1e6, 1e6),
            seed=self.random.randrange(2**32),
            watch=self.check,
        )
        instance.api.watchable = self.random.random() < 0.7
        self.alive.append(instance)

    def check(self, newcomer: Instance | None = None) -> None:
        self.terms += newcomer is not None
        leading = [instance.identity for instance in self.alive if instance.leading]
        if len(leading) > 1:
            self.violations.append(f"{leading} lead together at {now()}")
        believing = [instance.identity for instance in self.alive if instance.elector.is_leader]
        if len(believing) > 1:
            self.violations.append(f"{believing} believe to lead at {now()}")

    async def trouble_them(self) -> None:
        until = now() + TROUBLED_SECONDS
        while now() < until:
            while len(self.alive) < self.size:
                self.start()
            await asyncio.sleep(self.random.uniform(0.0, 6.0))
            await self.befall(self.random.choice(self.alive))
            self.check()
            self.bury()

    def bury(self) -> None:
        """Forget those that have ended, which none may have done by an error."""
        for instance in self.alive:
            if instance.task.done() and not instance.task.cancelled():
                instance.task.result()
        self.alive = [instance for instance in self.alive if not instance.task.done()]

    async def befall(self, instance: Instance) -> None:
        """Something happens to one of them."""
        fate = self.random.random()
        if fate < 0.1:
            await instance.kill()
        elif fate < 0.2:
            instance.stop.set()
        elif fate < 0.25:
            instance.task.cancel()
        elif fate < 0.25 + self.weather.outages:
            instance.api.down = not instance.api.down
        elif fate > 0.97 and self.deletable:
            self.store.delete()

    @property
    def deletable(self) -> bool:
        """Is there a Lease whose deletion by hand does not itself make a second leader?"""
        if self.store.lease is None:
            return False
        holder = self.store.spec["holderIdentity"]
        return holder not in {instance.identity for instance in self.alive}

    @property
    def led(self) -> bool:
        return any(instance.leading for instance in self.alive)

    async def somebody_leads(self) -> None:
        """With the trouble over, the instances that are left elect one of them in time."""
        self.calm = True
        for instance in self.alive:
            instance.api.down = False
        while len(self.alive) < self.size:
            self.start()
        # An answer may still hang for as long as a request may take; then the lease runs out, and
        # without a watch each of two looks may come as late as the jitter allows.
        hung = 2 * max(1.0, self.times.renew_deadline.seconds / 2) + 40.0
        jittered = 2.2 * self.times.retry_period.seconds
        await asyncio.sleep(hung + self.times.lease_duration.seconds + 2 * jittered + 1.0)
        self.bury()
        self.check()
        assert self.led or not self.alive, "nobody leads"

    async def end(self) -> None:
        for instance in self.alive:
            instance.stop.set()
        ends = await asyncio.gather(*(instance.task for instance in self.alive))
        assert set(ends) <= {Ended.STOPPED}
        assert self.store.lease is None or self.store.spec["holderIdentity"] == ""


@given(
    times=st.sampled_from(TIMES),
    weather=WEATHERS,
    size=st.sampled_from([2, 3]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=500 if DEEP else 40, deadline=None, database=None, derandomize=not DEEP)
def test_never_two_leaders_and_in_the_end_one(
    times: tuple[float, float, float], weather: Weather, size: int, seed: int
) -> None:
    async def scenario() -> None:
        world = World(config(*times), weather, size, seed)
        await world.trouble_them()
        await world.somebody_leads()
        await world.end()
        assert world.terms
        assert not world.violations

    run_virtually(scenario())
