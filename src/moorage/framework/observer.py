"""What a metrics recorder can learn from plugins and from the attempts they take part in."""

from moorage.framework.timing import AttemptTimes


class FrameworkObserver:
    """Is told what happens inside of attempts; must not call back. This one ignores everything."""

    def time(self) -> float:
        """A stopwatch's reading in seconds; whoever does not measure reads no clock."""
        return 0.0

    def attempt_begins(self, profile: str) -> AttemptTimes:
        """The stopwatch of an attempt that begins now."""
        return AttemptTimes(profile)

    def preemption_attempted(self) -> None:
        """DefaultPreemption was asked to make room."""

    def group_preemption_attempted(self, result: str) -> None:
        """DefaultPreemption was asked to make room for a pod group, and answered with a status."""

    def preemption_evaluated(self, preemptor: str, result: str, seconds: float) -> None:
        """The search for victims for a `pod` or a `podgroup` ended with a status."""

    def volume_stage_failed(self, stage: str) -> None:
        """Something broke in the volume binder's stage `predicate`, `assume` or `bind`."""

    def claim_created(self, status: str) -> None:
        """A claim for extended resources was sent to the API: `success` or `failure`."""

    def binding_conditions_waited(
        self, profile: str, driver: str, status: str, seconds: float
    ) -> None:
        """The wait for a device's conditions ended: success, failure, timeout or error."""

    def binding_conditions_allocated(self, profile: str, driver: str, status: str) -> None:
        """The same, counted once for each device that has conditions."""
