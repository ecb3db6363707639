"""Write monitoring/grafana.json, the board for Grafana, and check monitoring/alerts.yml, the rules for Prometheus.

The board is built with Grafana's own typed builders, so that it follows their schema. Every query, of the board and of
the rules, is parsed, and may use only figures that the server or the library has.

    python scripts/write_monitoring.py           write the board
    python scripts/write_monitoring.py --check   fail if the board is out of date or a rule is wrong
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal

import promql_parser as promql
import yaml  # type: ignore[import-untyped]
from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_reminiscence import AgentMem, Health
from agent_reminiscence.server.access.authenticators import LocalToken
from agent_reminiscence.server.app import create_app
from agent_reminiscence.telemetry import Telemetry

ROOT: Final = Path(__file__).resolve().parent.parent
BOARD: Final = ROOT / "monitoring" / "grafana.json"
ALERTS: Final = ROOT / "monitoring" / "alerts.yml"

_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${source}")
# Chosen above the board. An empty choice is all servers.
_HERE: Final = 'instance=~"$instance"'
_HEIGHT: Final = 7
# Labels that Prometheus adds, and that of a histogram's buckets.
_ADDED: Final = frozenset({"instance", "job", "le"})

# What OpenTelemetry's histograms are called in Prometheus, as its exporters spell them.
_OPERATIONS: Final = "agent_reminiscence_operation_duration_seconds"
_JOBS: Final = "agent_reminiscence_job_duration_seconds"
_DELAYS: Final = "agent_reminiscence_job_delay_seconds"
_STATEMENTS: Final = "db_client_operation_duration_seconds"


def main() -> int:
    """Write or check; returns the exit code."""
    text = _as_json(_board())
    faults = _faults_of_rules() or _faults_of_queries(text)
    if "--check" in sys.argv[1:]:
        if BOARD.read_text(encoding="utf-8") != text:
            faults.append(f"{BOARD.name} is out of date; run make monitoring")
    elif not faults:
        BOARD.write_text(text, encoding="utf-8")
    for fault in faults:
        sys.stderr.write(f"monitoring: {fault}\n")
    return 1 if faults else 0


def _board() -> dashboard.Dashboard:
    board = (
        dashboard.Dashboard("Agent Reminiscence")
        .uid("agent-reminiscence")
        .description("The server and what its memory does. Every figure is of all tenants together.")
        .tags(["agent-reminiscence"])
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("utc")
        .readonly()
        .with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("instance")
            .label("Server")
            .datasource(_SOURCE)
            .query("label_values(reminiscence_info, instance)")
            .multi(multi=True)
            .include_all(include_all=True)
            .all_value(".*")
        )
    )
    _add_overview(board)
    _add_recall(board)
    _add_requests(board)
    _add_work(board)
    _add_library(board)
    return board


def _add_overview(board: dashboard.Dashboard) -> None:
    board.with_row(dashboard.Row("Now"))
    recalls = f"sum(increase(reminiscence_recalls_total{{{_HERE}}}[24h]))"
    found = f'sum(increase(reminiscence_recalls_total{{{_HERE},found="yes"}}[24h]))'
    for title, expression, unit in (
        ("Stores that answer", f"sum(reminiscence_store_up{{{_HERE}}})", "short"),
        ("Workers that work", f"sum(reminiscence_worker_up{{{_HERE}}})", "short"),
        ("Work given up", f'max(reminiscence_jobs{{{_HERE},state="failed"}})', "short"),
        ("Questions in a day", recalls, "short"),
        ("Found of these", f"{found} / {recalls}", "percentunit"),
        ("Slowest 5 % of recalls", f"{_quantile(0.95, _recall_seconds('24h'))}", "s"),
    ):
        board.with_panel(
            stat.Panel()
            .title(title)
            .datasource(_SOURCE)
            .unit(unit)
            .no_value("none")
            .with_target(_query(expression, "").instant())
            .height(4)
            .span(4)
        )


def _add_recall(board: dashboard.Dashboard) -> None:
    board.with_row(dashboard.Row("Recall"))
    by_found = f"sum by (found) (rate(reminiscence_recalls_total{{{_HERE}}}[$__rate_interval]))"
    found = f'sum(rate(reminiscence_recalls_total{{{_HERE},found="yes"}}[$__rate_interval]))'
    every = f"sum(rate(reminiscence_recalls_total{{{_HERE}}}[$__rate_interval]))"
    board.with_panel(_chart("Questions", "reqps", (by_found, "found: {{found}}")).stacking(_stacked()).span(8))
    board.with_panel(
        _chart("Found", "percentunit", (f"{found} / {every}", "of all questions"))
        .description("The share of questions whose best hit fits. A fall may mean that users ask about something new.")
        .min(0)
        .max(1)
        .span(8)
    )
    board.with_panel(
        _chart(
            "Time of a recall over REST",
            "s",
            *((_quantile(share, _recall_seconds("$__rate_interval")), f"p{share * 100:.0f}") for share in _SHARES),
        ).span(8)
    )


def _add_requests(board: dashboard.Dashboard) -> None:
    board.with_row(dashboard.Row("Requests and connections"))
    requests = "reminiscence_http_requests_total"
    seconds = "reminiscence_http_request_duration_seconds_bucket"
    board.with_panel(
        _chart(
            "Requests",
            "reqps",
            (f"sum by (status) (rate({requests}{{{_HERE}}}[$__rate_interval]))", "{{status}}"),
        )
        .stacking(_stacked())
        .span(8)
    )
    slowest = f"sum by (le, route) (rate({seconds}{{{_HERE}}}[$__rate_interval]))"
    board.with_panel(
        _chart("p95 by route", "s", (f"topk(10, {_quantile(0.95, slowest)})", "{{route}}"))
        .description("Until an answer begins. The ten slowest routes.")
        .span(8)
    )
    board.with_panel(
        _chart(
            "Refused",
            "reqps",
            (f"sum by (reason) (rate(reminiscence_http_refused_total{{{_HERE}}}[$__rate_interval]))", "{{reason}}"),
            (f"sum(rate(reminiscence_http_malformed_requests_total{{{_HERE}}}[$__rate_interval]))", "malformed"),
        ).span(8)
    )
    board.with_panel(
        _chart(
            "Calls",
            "short",
            *(
                (f"sum(reminiscence_http_{name}{{{_HERE}}})", name.replace("_", " "))
                for name in ("requests_in_flight", "calls_running", "calls_waiting", "streams_open")
            ),
        ).span(8)
    )
    closed = f"sum by (reason) (rate(reminiscence_http_connections_closed_total{{{_HERE}}}[$__rate_interval]))"
    board.with_panel(
        _chart(
            "Connections",
            "short",
            (f"sum(reminiscence_http_connections_open{{{_HERE}}})", "open"),
            (closed, "closed in a second: {{reason}}"),
        ).span(8)
    )
    board.with_panel(
        _chart("Memory of the process", "bytes", (f"process_resident_memory_bytes{{{_HERE}}}", "{{instance}}")).span(8)
    )


def _add_work(board: dashboard.Dashboard) -> None:
    board.with_row(dashboard.Row("Work in the background"))
    board.with_panel(
        # Each server sees the jobs of all, so they are not added up.
        _chart("Jobs", "short", (f"max by (state) (reminiscence_jobs{{{_HERE}}})", "{{state}}")).span(8)
    )
    board.with_panel(
        _chart(
            "For how long the next job could have started",
            "s",
            (f"max(reminiscence_next_job_waits_seconds{{{_HERE}}})", "waits"),
        ).span(8)
    )
    board.with_panel(
        _chart("Chunks without vectors", "short", (f"max(reminiscence_chunks_without_vectors{{{_HERE}}})", "chunks"))
        .description("Their vectors could not be made; they are found by their words only.")
        .span(8)
    )
    board.with_panel(
        _chart("Processor", "percentunit", (f"rate(process_cpu_seconds_total{{{_HERE}}}[5m])", "{{instance}}")).span(8)
    )


def _add_library(board: dashboard.Dashboard) -> None:
    """What the library tells through OpenTelemetry, of servers and of programs that open a memory themselves."""
    board.with_row(dashboard.Row("Library, through OpenTelemetry"))
    for title, name, label in (
        ("p95 of calls", _OPERATIONS, "agent_reminiscence_operation"),
        ("p95 of jobs", _JOBS, "agent_reminiscence_task"),
        ("p95 of statements", _STATEMENTS, "db_operation_name"),
    ):
        rates = f"sum by (le, {label}) (rate({name}_bucket[$__rate_interval]))"
        board.with_panel(_chart(title, "s", (f"topk(10, {_quantile(0.95, rates)})", f"{{{{{label}}}}}")).span(8))
    failed = f'sum by (error_type) (rate({_OPERATIONS}_count{{error_type!=""}}[$__rate_interval]))'
    board.with_panel(_chart("Calls that failed", "reqps", (failed, "{{error_type}}")).span(12))
    late = f"sum by (le, agent_reminiscence_task) (rate({_DELAYS}_bucket[$__rate_interval]))"
    board.with_panel(
        _chart("p95 of jobs' delays", "s", (_quantile(0.95, late), "{{agent_reminiscence_task}}")).span(12)
    )


_SHARES: Final = (0.5, 0.95, 0.99)


def _recall_seconds(window: str) -> str:
    return (
        "sum by (le) (rate(reminiscence_http_request_duration_seconds_bucket"
        f'{{{_HERE},method="POST",route="/v1/recall"}}[{window}]))'
    )


def _quantile(share: float, rates: str) -> str:
    return f"histogram_quantile({share}, {rates})"


def _chart(title: str, unit: str, *series: tuple[str, str]) -> timeseries.Panel:
    """A chart of queries, each with its legend."""
    panel = timeseries.Panel().title(title).datasource(_SOURCE).unit(unit).height(_HEIGHT).fill_opacity(8).min(0)
    for expression, legend in series:
        panel.with_target(_query(expression, legend))
    return panel


def _stacked() -> common.StackingConfig:
    return common.StackingConfig().mode(StackingMode.NORMAL)


def _query(expression: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().datasource(_SOURCE).expr(expression).legend_format(legend)


def _as_json(board: dashboard.Dashboard) -> str:
    return json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


# --- Checks ----------------------------------------------------------------------------------------------------------


def _faults_of_queries(board: str) -> list[str]:
    known = _figures_of_server() | _figures_of_library()
    queries = [
        (f"{BOARD.name}, panel {panel['title']!r}", _filled(target["expr"]))
        for panel in json.loads(board)["panels"]
        for target in panel.get("targets", ())
    ]
    queries += [(f"{ALERTS.name}, {rule.alert}", rule.expr) for group in _rules().groups for rule in group.rules]
    return [f"{place}: {fault}" for place, query in queries for fault in _faults_of(query, known)]


def _faults_of(query: str, known: Mapping[str, AbstractSet[str]]) -> list[str]:
    try:
        used = _figures_of(promql.parse(query))
    except ValueError as error:
        return [str(error)]
    faults = [f"there is no figure {name}" for name in used if name not in known]
    return faults + [
        f"{name} has no label {label}"
        for name, labels in used.items()
        for label in sorted(labels - known.get(name, labels) - _ADDED)
    ]


def _figures_of(node: promql.Expr, grouped: frozenset[str] = frozenset()) -> dict[str, set[str]]:
    """The figures that a query reads, each with the labels that it selects or groups by."""
    match node:
        case promql.VectorSelector():
            return {str(node.name): {matcher.name for matcher in node.matchers.matchers} | grouped}
        case promql.MatrixSelector():
            parts: list[promql.Expr] = [node.vector_selector]
        case promql.AggregateExpr():
            parts, grouped = [node.expr], grouped | frozenset(node.modifier.labels if node.modifier else ())
        case promql.BinaryExpr():
            parts = [node.lhs, node.rhs]
        case promql.Call():
            parts = list(node.args)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            parts = [node.expr]
        case _:
            parts = []
    figures: dict[str, set[str]] = {}
    for part in parts:
        for name, labels in _figures_of(part, grouped).items():
            figures.setdefault(name, set()).update(labels)
    return figures


def _figures_of_server() -> dict[str, set[str]]:
    """The figures of `/metrics`, with their labels."""
    metrics = create_app(AgentMem(), LocalToken("monitoring")).state.metrics
    metrics.show(Health(worker="working"))
    figures: dict[str, set[str]] = {}
    # Only a figure that has a value shows its labels, and none has one yet.
    for name, collector in metrics.registry._names_to_collectors.items():  # noqa: SLF001
        figures[name] = set(getattr(collector, "_labelnames", ()))
    # Those of the process have no names before they are read.
    return {sample.name: set() for family in metrics.registry.collect() for sample in family.samples} | figures


def _figures_of_library() -> dict[str, set[str]]:
    """The figures that the library gives OpenTelemetry, as Prometheus spells them."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    telemetry = Telemetry(meter_provider=provider)
    with suppress(ValueError), telemetry.operation("retrieve_memories"):
        raise ValueError
    with telemetry.job("work_stream", external_id="one", delay_seconds=1.0), telemetry.statement("search", "one"):
        pass
    data = reader.get_metrics_data()
    assert data is not None
    provider.shutdown()
    figures: dict[str, set[str]] = {}
    for metric in (
        one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics
    ):
        labels = {str(label).replace(".", "_") for point in metric.data.data_points for label in point.attributes or ()}
        for suffix in ("bucket", "count", "sum"):
            figures[f"{metric.name.replace('.', '_')}_seconds_{suffix}"] = labels
    return figures


def _filled(expression: str) -> str:
    """A query of the board with an interval in place of Grafana's own variable."""
    return expression.replace("$__rate_interval", "5m")


def _query_text(value: str) -> str:
    promql.parse(value)
    return value


def _duration(value: str) -> str:
    promql.parse_duration(value)
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Told(_Strict):
    summary: str
    description: str


class _Labels(_Strict):
    severity: Literal["warning", "critical"]


class _Rule(_Strict):
    alert: Annotated[str, Field(pattern=r"^Reminiscence[A-Z][A-Za-z]+$")]
    expr: Annotated[str, AfterValidator(_query_text)]
    for_: Annotated[str, AfterValidator(_duration), Field(alias="for")]
    labels: _Labels
    annotations: _Told


class _Group(_Strict):
    name: str
    rules: list[_Rule]


class _Rules(_Strict):
    groups: list[_Group]


def _rules() -> _Rules:
    return _Rules.model_validate(yaml.safe_load(ALERTS.read_text(encoding="utf-8")))


def _faults_of_rules() -> list[str]:
    try:
        rules = _rules()
    except ValueError as error:
        return [f"{ALERTS.name}: {error}"]
    names = [rule.alert for group in rules.groups for rule in group.rules]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [f"{ALERTS.name} has {name} twice" for name in twice]


if __name__ == "__main__":
    raise SystemExit(main())
