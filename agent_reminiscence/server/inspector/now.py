"""What a memory holds now, what is being done, and how it grew."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from starlette.responses import JSONResponse, Response

from agent_reminiscence.config.constants import TIERS
from agent_reminiscence.config.settings import Config
from agent_reminiscence.domain.usage import MemoryUsage, RecallDay
from agent_reminiscence.server.inspector import reading
from agent_reminiscence.server.inspector.growth import MOST_EVENTS, GrowthReader
from agent_reminiscence.server.inspector.tenants import known_tenants
from agent_reminiscence.server.inspector.visits import Visit, has_neo4j

_LATEST: Final = 8
_LISTED_TENANTS: Final = 6
_RECALL_DAYS: Final = 90
# What the chart of times shows: half of all questions, and nearly all.
_SHARES: Final = (0.5, 0.95)


class Now:
    """The page one begins with."""

    def __init__(self, growth: GrowthReader) -> None:
        self._growth = growth

    async def show(self, visit: Visit) -> Response:
        """Counts, work, limits and the latest events."""
        tenant = visit.tenant
        usage = await visit.memory.admin.usage(tenant)
        jobs = await visit.memory.admin.jobs(tenant)
        latest = await reading.page(visit.memory, tenant, limit=_LATEST)
        chooses = visit.caller.grant.external_id is None
        tenants = await known_tenants(visit.memory, limit=_LISTED_TENANTS) if chooses else []
        recalls = await visit.memory.admin.recalls(tenant, days=_RECALL_DAYS)
        spent = sum(one.input_tokens + one.output_tokens for one in usage.models)
        return visit.show(
            "now.html",
            usage=usage,
            tiers=[(tier, getattr(usage, tier)) for tier in TIERS],
            jobs=jobs,
            latest=latest.events,
            spent=spent,
            asked=sum(day.answered for day in recalls),
            found=sum(day.found for day in recalls),
            recall_days=_RECALL_DAYS,
            tenants=tenants,
            all_jobs=(await visit.memory.admin.health()).jobs if chooses else None,
            quotas=_quotas(visit.memory.config, usage),
            daily_tokens=visit.memory.config.agent_daily_tokens,
            # Of a memory that it has never followed, the usage names no store.
            has_neo4j=has_neo4j(visit.memory),
            most_events=MOST_EVENTS,
        )

    async def growth(self, visit: Visit) -> Response:
        """The numbers of the charts."""
        growth = await self._growth.read(visit.memory, visit.tenant)
        recalls = await visit.memory.admin.recalls(visit.tenant, days=_RECALL_DAYS)
        points = growth.sampled()
        models = sorted({model for tokens in growth.tokens.values() for model in tokens})
        days = sorted(growth.events)
        today = datetime.now(UTC).date().isoformat()
        shown = {
            "tiers": list(TIERS),
            "times": [point.recorded_at.timestamp() for point in points],
            "counts": [[point.counts[index] for point in points] for index in range(len(TIERS))],
            "position": growth.position,
            "is_whole": growth.position < MOST_EVENTS,
            "days": days,
            "models": models,
            "tokens": [[growth.tokens[day][model] if day in growth.tokens else 0 for day in days] for model in models],
            "recalls": {
                "days": [day.day.isoformat() for day in recalls],
                "found": [day.found for day in recalls],
                "not_found": [day.answered - day.found for day in recalls],
                "milliseconds": [[_milliseconds(day, share) for day in recalls] for share in _SHARES],
            },
            "tokens_today": sum(growth.tokens[today].values()) if today in growth.tokens else 0,
        }
        return JSONResponse(shown)


def _milliseconds(day: RecallDay, share: float) -> float | None:
    seconds = day.quantile(share)
    return None if seconds is None else round(seconds * 1_000, 1)


def _quotas(config: Config, usage: MemoryUsage) -> list[tuple[str, int, int]]:
    """What is limited: its name, what is there, and what may be."""
    limits = (
        ("Live passages", usage.live_chunks, config.max_chunks),
        ("Active memories", usage.active_memories, config.max_active_memories),
    )
    return [(name, used, most) for name, used, most in limits if most is not None]
