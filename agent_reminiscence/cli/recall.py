"""The `search`, `memories`, `history`, `archive` and `usage` commands."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import (
    ANY,
    EXIT_OK,
    HERE,
    Actor,
    AsJson,
    AsOf,
    Database,
    KnownAt,
    Tenant,
    Tenants,
    Timezone,
    Where,
    check_stored,
    moment,
    note_unstored,
    opened,
)
from agent_reminiscence.cli.terminal import console, count, one_line, say, write_json
from agent_reminiscence.config.constants import TIERS
from agent_reminiscence.config.timezones import stored_zone, zone_named
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.days import iso_day

if TYPE_CHECKING:
    from agent_reminiscence import ActiveMemory, MemoryUsage, RetrievalResult, SearchHit, TierUsage
    from agent_reminiscence.domain.history import Derivation, MemoryHistory, MemoryVersion


def search(
    query: str,
    *,
    external_id: Tenants,
    limit: Annotated[
        int | None,
        Parameter(
            help="Maximum number of hits; default: the setting retrieval_limit, or 10, or what fits a token budget."
        ),
    ] = None,
    tier: Annotated[
        list[Literal["active", "shortterm", "longterm"]] | None,
        Parameter(negative="", help="Only this tier; repeatable."),
    ] = None,
    token_budget: Annotated[
        int | None, Parameter(help="Maximum number of tokens of the hits as rendered for a prompt.")
    ] = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    min_confidence: Annotated[
        float | None, Parameter(help="Only chunks with at least this confidence, 0 to 1.")
    ] = None,
    min_match: Annotated[float | None, Parameter(help="Only hits with at least this match, 0 to 1.")] = None,
    where: Where = ANY,
    timezone: Timezone = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Find passages that answer a question, best first, with their sources; in several memories, ranked as one."""
    as_of_time, known_at_time = moment("--as-of", as_of), moment("--known-at", known_at)
    admitted = where.filter()

    async def retrieve() -> RetrievalResult:
        async with opened(database) as memory:
            found = await memory.retrieve_memories(
                external_id,
                query,
                limit=limit,
                tiers=tier,
                token_budget=token_budget,
                min_confidence=min_confidence,
                min_match=min_match,
                as_of=as_of_time,
                known_at=known_at_time,
                where=admitted,
                timezone=timezone,
                synthesis=False,
            )
            if not found.hits and len(found.external_ids) == 1:
                await note_unstored(memory, found.external_ids[0])
            return found

    result = asyncio.run(retrieve())
    if as_json:
        write_json(result.model_dump(mode="json"))
        return EXIT_OK
    _show_hits(console(), result)
    return EXIT_OK


def _show_hits(out: Console, result: RetrievalResult) -> None:
    from agent_reminiscence.domain.retrieval import outdated_words

    are_several, zone = len(result.external_ids) > 1, zone_named(result.timezone)
    if result.standing:
        say(out, "Always holds:", style="bold")
    for hit in result.standing:
        whose = f" ({_whose(hit)})" if are_several else ""
        pinned = " (pinned)" if hit.is_pinned else ""
        say(out, f"{iso_day(hit.said_at, zone)} {hit.content.strip()}{pinned}{whose}", indent=4)
        if (words := outdated_words(hit, result.hits, zone)) is not None:
            say(out, words, indent=8, style="dim")
    if not result.hits:
        say(out, "Nothing found.")
    elif not result.found:
        say(out, "Weak match; the closest hits:")
    for number, hit in enumerate(result.hits, start=1):
        say(out, f"[{number}] {source_line(hit, zone)}{f', {_whose(hit)}' if are_several else ''}", style="bold")
        say(out, hit.content.strip(), indent=4)
        if (words := outdated_words(hit, result.hits, zone)) is not None:
            say(out, words, indent=4, style="dim")
        if hit.is_of_other:
            say(out, "apparently said by someone other than the person asked about", indent=4, style="dim")
    for omission in result.omitted:
        say(out, f"Left out: {omission.count} ({omission.reason})", style="dim")


def _whose(hit: SearchHit) -> str:
    """Whose memory a hit is from, and who has the same words."""
    also = f", also in {', '.join(map(repr, hit.also_in))}" if hit.also_in else ""
    return f"memory {hit.external_id!r}{also}"


def source_line(hit: SearchHit, zone: tzinfo = UTC) -> str:
    """Where a hit comes from: title, speaker, when it was said and ceased to be true, tier, source, score and match."""
    until = "" if hit.end_date is None else f" to {iso_day(hit.end_date, zone)}"
    said = f", {hit.speaker}" if hit.speaker else ""
    return (
        f"{one_line(hit.title)}{said}, {iso_day(hit.said_at, zone)}{until}"
        f" ({hit.tier}, source {hit.source}, score {hit.score:.2f}, match {hit.match:.2f})"
    )


def memories(
    *,
    external_id: Tenant,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    where: Where = ANY,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """List the active memories, oldest first; with --as-of or --known-at, as they were then."""
    as_of_time, known_at_time = moment("--as-of", as_of), moment("--known-at", known_at)

    admitted = where.filter()
    is_past = as_of_time is not None or known_at_time is not None
    if is_past and admitted is not None:
        raise InvalidInputError("a filter cannot be combined with --as-of or --known-at here; search accepts both")

    async def read() -> list[ActiveMemory]:
        async with opened(database) as memory:
            if is_past:
                listed = await memory.admin.active_memories(external_id, as_of=as_of_time, known_at=known_at_time)
            else:
                listed = await memory.get_active_memories(external_id, where=admitted)
            if not listed:
                await note_unstored(memory, external_id)
            return listed

    found = asyncio.run(read())
    if as_json:
        write_json([one.model_dump(mode="json") for one in found])
        return EXIT_OK
    out = console()
    if not found:
        say(out, "No active memories.")
    for one in found:
        say(
            out, f"{one.id}  {iso_day(one.occurred_at, stored_zone(one.timezone))}  {one_line(one.title)}", style="bold"
        )
        done = one.consolidated_version
        state = f"version {done} consolidated" if done else "not consolidated"
        until = "" if one.expires_at is None else f", expires {_time(one.expires_at)}"
        say(out, f"version {one.version}, {len(one.content):,} characters, {state}{until}", indent=4, style="dim")
    return EXIT_OK


def history(memory_id: str, *, external_id: Tenant, as_json: AsJson = False, database: Database = HERE) -> int:
    """Show every version of a memory, oldest first: when it was true, when and by whom recorded, what followed."""

    async def read() -> MemoryHistory:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            return await memory.admin.history(external_id, memory_id)

    found = asyncio.run(read())
    if as_json:
        write_json(found.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    for version in found.versions:
        _show_version(out, version)
    if found.archived_at is not None:
        say(out, f"archived {_time(found.archived_at)}", style="bold")
    return EXIT_OK


def _show_version(out: Console, version: MemoryVersion) -> None:
    said_by = f", by {version.actor}" if version.actor else ""
    said_in = f", in conversation {version.conversation_id}" if version.conversation_id else ""
    until = "" if version.expires_at is None else f" until {_time(version.expires_at)}"
    say(out, f"version {version.version}  {one_line(version.title)}", style="bold")
    say(
        out,
        f"true from {_time(version.occurred_at)}{until}, recorded {_time(version.recorded_at)} at position"
        f" {version.position} (source {version.source}{said_by}{said_in})",
        indent=4,
        style="dim",
    )
    say(out, version.content.strip(), indent=4)
    new = sum(chunk.new for chunk in version.chunks)
    say(
        out,
        f"{count(len(version.chunks), 'chunk', 'chunks')}: {new} new, {len(version.chunks) - new} kept,"
        f" {version.chunks_ended} ended",
        indent=4,
        style="dim",
    )
    for derivation in version.derived:
        say(out, _derivation_line(derivation), indent=4, style="dim")


def _derivation_line(derivation: Derivation) -> str:
    chunks = count(len(derivation.chunk_ids), "chunk", "chunks")
    repetitions = len(derivation.duplicates)
    repeated = ""
    if repetitions and derivation.reason:
        repeated = f" and {count(repetitions, 'repetition', 'repetitions')} elsewhere"
    elif repetitions:
        repeated = f", {repetitions} ended as duplicates"
    why = f" ({derivation.reason})" if derivation.reason else ""
    deed = derivation.kind.removeprefix("memory.") + why
    return f"{deed} {_time(derivation.recorded_at)} at position {derivation.position}: {chunks}{repeated}"


def _time(moment_: datetime) -> str:
    return f"{moment_.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def archive(
    memory_id: str,
    *,
    external_id: Tenant,
    end_chunks: Annotated[
        bool, Parameter(negative="", help="Its content is no longer true: only searches of earlier times find it.")
    ] = False,
    occurred_at: Annotated[str | None, Parameter(help="When this happened in the world; default: now.")] = None,
    actor: Actor = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Archive an active memory: it leaves the list and takes no more updates; its content stays searchable."""
    occurred_at_time = moment("--occurred-at", occurred_at)

    async def write() -> ActiveMemory:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            return await memory.admin.archive(
                external_id, memory_id, end_chunks=end_chunks, occurred_at=occurred_at_time, actor=actor
            )

    archived = asyncio.run(write())
    if as_json:
        write_json(archived.model_dump(mode="json"))
        return EXIT_OK
    fate = "ended" if end_chunks else "stay searchable"
    say(console(), f"{one_line(archived.title)!r} is archived at version {archived.version}; its chunks {fate}.")
    return EXIT_OK


def usage(external_id: Tenant, *, as_json: AsJson = False, database: Database = HERE) -> int:
    """Show what one external_id's memory holds, its pending work, and its use of models."""

    async def read() -> MemoryUsage:
        async with opened(database) as memory:
            counted = await memory.admin.usage(external_id)
            if not counted.events:
                await note_unstored(memory, external_id)
            return counted

    found = asyncio.run(read())
    if as_json:
        write_json(found.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    for tier in TIERS:
        held: TierUsage = getattr(found, tier)
        chunks = count(held.live_chunks, "chunk", "chunks")
        say(out, tier, style="bold")
        say(out, f"{chunks}, {held.text_bytes:,} bytes, {held.tokens:,} tokens; {held.ended_chunks:,} ended", indent=4)
    say(out, "memories", style="bold")
    say(
        out,
        f"{found.active_memories:,} active, {found.archived_memories:,} archived, {found.shortterm_memories:,}"
        f" consolidated; {count(found.events, 'event', 'events')}",
        indent=4,
    )
    say(out, "graph", style="bold")
    lag = ""
    if found.graph_store is not None:
        lag = f"; Neo4j is {count(found.graph_lag, 'event', 'events')} behind" if found.graph_lag else "; Neo4j current"
    say(
        out,
        f"{count(found.entities, 'entity', 'entities')},"
        f" {count(found.relationships, 'relationship', 'relationships')}{lag}",
        indent=4,
    )
    say(out, "work", style="bold")
    say(
        out,
        f"{found.work_waiting:,} waiting, {found.work_running:,} running, {found.work_failed:,} failed;"
        f" {count(found.vectors_missing, 'chunk lacks vectors', 'chunks lack vectors')}",
        indent=4,
    )
    for model in found.models:
        say(out, one_line(model.model), style="bold")
        say(
            out,
            f"{count(model.requests, 'request', 'requests')}, {model.input_tokens:,} tokens in,"
            f" {model.output_tokens:,} tokens out; {_cost(model.cost_usd)}",
            indent=4,
        )
    if len(found.models) > 1:
        say(out, "all models", style="bold")
        say(out, _cost(found.cost_usd), indent=4)
    return EXIT_OK


def _cost(dollars: float | None) -> str:
    return "cost unknown" if dollars is None else f"${dollars:,.4f}"
