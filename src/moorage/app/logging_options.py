"""What the logging flags say, as plain values, and which values they may have.

Owns the names, the defaults and upstream's sentences about wrong ones. What they do is in `logs`.
"""

from dataclasses import dataclass

from moorage.config.duration import Duration
from moorage.config.feature_gates import FeatureGates
from moorage.config.field_errors import forbidden, invalid

FORMATS = ("text", "json")
DEFAULT_FLUSH_FREQUENCY = Duration.of_seconds(5)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where a format's messages go."""

    split: bool = False
    """Errors to standard error, all else to standard output; otherwise all to standard error."""
    info_buffer_size: int = 0
    """Bytes kept back of what goes to standard output."""


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """How the process logs."""

    format: str = "text"
    flush_frequency: Duration = DEFAULT_FLUSH_FREQUENCY
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    """Verbosity by pattern of a source file's name, without its ending."""
    text: StreamOptions = StreamOptions()
    json: StreamOptions = StreamOptions()

    @property
    def streams(self) -> StreamOptions:
        """The streams of the chosen format."""
        return self.json if self.format == "json" else self.text

    def errors(self, gates: FeatureGates) -> list[str]:
        """Everything that is wrong."""
        errors = []
        if self.flush_frequency <= Duration(0):
            text = "Must be greater than zero"
            errors.append(invalid("flushFrequency", str(self.flush_frequency), text))
        if self.format not in FORMATS:
            errors.append(invalid("format", self.format, "Unsupported log format"))
        elif self.format == "json" and not gates.enabled("LoggingBetaOptions"):
            text = "Log format json is disabled, see LoggingBetaOptions feature"
            errors.append(forbidden("format", text))
        if self.vmodule and self.format not in ("", "text"):
            errors.append(forbidden("vmodule", "Only supported for text log format"))
        if not gates.enabled("LoggingAlphaOptions"):
            for name, streams in (("text", self.text), ("json", self.json)):
                errors += _alpha_errors(f"options.{name}", streams)
        return errors


def _alpha_errors(path: str, streams: StreamOptions) -> list[str]:
    text = "Feature LoggingAlphaOptions is disabled"
    given = {"splitStream": streams.split, "infoBufferSize": streams.info_buffer_size}
    return [forbidden(f"{path}.{name}", text) for name, value in given.items() if value]
