"""The `entities` and `neighbourhood` commands: what memories name and how it is related."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import (
    EXIT_OK,
    HERE,
    AsJson,
    Database,
    Tenant,
    check_stored,
    moment,
    note_unstored,
    opened,
)
from agent_reminiscence.cli.terminal import console, count, one_line, say, write_json

if TYPE_CHECKING:
    from agent_reminiscence import Entity, Relationship, Subgraph


def entities(
    name: Annotated[str | None, Parameter(help="Only entities with a similar name; default: all.")] = None,
    /,
    *,
    external_id: Tenant,
    entity_type: Annotated[
        list[str] | None, Parameter(name="--type", negative="", help="Only entities of this type; repeatable.")
    ] = None,
    limit: Annotated[int, Parameter(help="Maximum number of entities, 1 to 500.")] = 100,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """List the entities that memories name: the most mentioned first, or the most similar if a name is given."""

    async def read() -> list[Entity]:
        async with opened(database) as memory:
            listed = await memory.admin.graph.entities(external_id, alike=name, types=entity_type, limit=limit)
            if not listed:
                await note_unstored(memory, external_id)
            return listed

    found = asyncio.run(read())
    if as_json:
        write_json([one.model_dump(mode="json") for one in found])
        return EXIT_OK
    out = console()
    if not found:
        say(out, "No entities." if name is None else "Nothing found.")
    for one in found:
        _show_entity(out, one)
    return EXIT_OK


def neighbourhood(
    entity: Annotated[str, Parameter(help="Id of the entity, or one of its names.")],
    /,
    *,
    external_id: Tenant,
    hops: Annotated[int, Parameter(help="How many hops to follow, 1 to 6.")] = 1,
    relationship_type: Annotated[
        list[str] | None,
        Parameter(name="--type", negative="", help="Only relationships of this type; repeatable."),
    ] = None,
    at: Annotated[
        str | None, Parameter(help="Relationships that were true at this time; default: those that have not ended.")
    ] = None,
    limit: Annotated[int, Parameter(help="Maximum number of entities, 1 to 500.")] = 500,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Show an entity's relationships, strongest first."""
    at_time = moment("--at", at)

    async def read() -> Subgraph:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            return await memory.admin.graph.neighbourhood(
                external_id, entity, hops=hops, types=relationship_type, at=at_time, limit=limit
            )

    found = asyncio.run(read())
    if as_json:
        write_json(found.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    _show_entity(out, found.entities[0])
    by_id = {one.id: one for one in found.entities}
    for relationship in found.relationships:
        say(out, _relationship_line(relationship, by_id[relationship.from_id], by_id[relationship.to_id]), indent=4)
    if found.is_truncated:
        say(out, "Truncated: there is more.", style="dim")
    return EXIT_OK


def _show_entity(out: Console, entity: Entity) -> None:
    say(out, f"{entity.id}  {one_line(entity.name)} ({one_line(entity.type)})", style="bold")
    aliases = f", also {', '.join(one_line(alias) for alias in entity.aliases)}" if entity.aliases else ""
    mentions = count(entity.mentions, "mention", "mentions")
    say(out, f"{mentions}, {entity.first_seen:%Y-%m-%d} to {entity.last_seen:%Y-%m-%d}{aliases}", indent=4, style="dim")


def _relationship_line(relationship: Relationship, source: Entity, target: Entity) -> str:
    until = "" if relationship.end_date is None else f" to {relationship.end_date:%Y-%m-%d}"
    return (
        f"{one_line(source.name)} –{one_line(relationship.type)}→ {one_line(target.name)}"
        f" (since {relationship.start_date:%Y-%m-%d}{until}, strength {relationship.strength:.2f},"
        f" confidence {relationship.confidence:.2f})"
    )
