"""Records what the package observes, with providers of its own: those of the process can be set only once."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recording:
    """An SDK that keeps all spans and metrics in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter_provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def close(self) -> None:
        """Record no more."""
        self.tracer_provider.shutdown()
        self.meter_provider.shutdown()

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """Those that have ended, in this order; only those called `name` if one is given."""
        return [span for span in self._exporter.get_finished_spans() if name is None or span.name == name]

    def span(self, name: str) -> ReadableSpan:
        """The only one called `name`."""
        (found,) = self.spans(name)
        return found

    def children(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """Those directly below `parent`, in the order in which they ended."""
        assert parent.context is not None
        return [span for span in self.spans() if span.parent and span.parent.span_id == parent.context.span_id]

    def metrics(self) -> dict[str, Metric]:
        """All that have a value, by name."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def durations(self, name: str) -> list[HistogramDataPoint]:
        """What a histogram holds, one point for each set of attributes."""
        metric = self.metrics().get(name)
        if metric is None:
            return []
        points = list(metric.data.data_points)
        assert all(isinstance(point, HistogramDataPoint) for point in points)
        return [point for point in points if isinstance(point, HistogramDataPoint)]

    def printed(self) -> str:
        """All that could leave the process: names, attributes, events and statuses of spans, and every metric."""
        parts = [span.to_json() for span in self.spans()]
        parts += [metric.to_json() for metric in self.metrics().values()]
        return "\n".join(parts)


def attributes(span: ReadableSpan) -> dict[str, object]:
    """The attributes of a span; tuples as lists."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in (span.attributes or {}).items()}
