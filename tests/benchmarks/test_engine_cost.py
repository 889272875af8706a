"""What metrics or the ledger cost: the turns, and what is made of their numbers."""

from collections.abc import Sequence

from moorage.benchmarks.engine_bench import EngineCost, Measurement, Side, measure_cost
from moorage.benchmarks.progress import Quiet


class Runs:
    """Stands for the processes: gives rates one after the other and remembers the arguments."""

    def __init__(self, *rates: float) -> None:
        self._rates = iter(rates)
        self.arguments: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> Measurement:
        self.arguments.append(list(arguments))
        rate = next(self._rates)
        # The first decision is slow in slow runs, the second in the others.
        share = 0.9 if rate < 120 else 0.1
        return Measurement(
            nodes=5,
            pods=2,
            workload="spread",
            placed=2,
            pods_per_second=rate,
            us_per_pod_p50=1.0,
            us_per_pod_p99=1.0,
            us_per_pod_mean=1.0,
            cpu_us_per_pod_first=1.0,
            cpu_us_per_pod_last=1.0,
            last_to_first=1.0,
            loading_seconds=1.0,
            bare_pass_us_p50=1.0,
            bare_pass_us_mean=1.0,
            to_bare_pass_p50=1.0,
            to_bare_pass_mean=1.0,
            cpu_seconds=1.0,
            peak_rss_mib=1.0,
            ns_by_pod=(round(2e9 / rate * share), round(2e9 / rate * (1 - share))),
        )


def cost_of(runs: Runs, rounds: int) -> EngineCost:
    return measure_cost(["--nodes", "5"], ["--metrics"], rounds, Quiet(), runs)


def test_runs_take_turns_in_changing_order() -> None:
    runs = Runs(100, 90, 90, 100)
    cost_of(runs, 2)
    switched = [arguments[2:] == ["--metrics"] for arguments in runs.arguments]
    assert switched == [False, True, True, False]
    assert all(arguments[:2] == ["--nodes", "5"] for arguments in runs.arguments)


def test_medians_best_runs_and_undisturbed_ones_are_compared() -> None:
    # without: 100, 200, 50; with: 80, 150, 47.5
    cost = cost_of(Runs(100, 80, 150, 200, 50, 47.5), 3)
    assert cost.without == Side(
        pods_per_second=100, best_pods_per_second=200, undisturbed_pods_per_second=666.7
    )
    assert cost.with_switches == Side(
        pods_per_second=80, best_pods_per_second=150, undisturbed_pods_per_second=521.7
    )
    assert (cost.cost_percent, cost.best_cost_percent) == (20.0, 25.0)
    assert cost.undisturbed_cost_percent == 21.7
    assert (cost.workload, cost.nodes, cost.pods, cost.rounds) == ("spread", 5, 2, 3)
