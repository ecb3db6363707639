"""The `profiles` commands: standing summaries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import (
    EXIT_OK,
    HERE,
    Actor,
    AsJson,
    Database,
    KnownAt,
    Tenant,
    check_stored,
    moment,
    note_unstored,
    opened,
)
from agent_reminiscence.cli.terminal import console, count, one_line, say, write_json

if TYPE_CHECKING:
    from agent_reminiscence.domain.profile import Profile

profiles_app = App(name="profiles", help="Standing summaries: texts that keep themselves up to date.")

Name = Annotated[str, Parameter(help="What the profile is called.")]


@profiles_app.command(name="list")
def list_(*, external_id: Tenant, as_json: AsJson = False, database: Database = HERE) -> int:
    """List the profiles of an external_id, by name."""

    async def read() -> list[Profile]:
        async with opened(database) as memory:
            listed = await memory.admin.profiles.list(external_id)
            if not listed:
                await note_unstored(memory, external_id)
            return listed

    found = asyncio.run(read())
    if as_json:
        write_json([one.model_dump(mode="json") for one in found])
        return EXIT_OK
    out = console()
    for one in found:
        _show_head(out, one)
    say(out, f"{count(len(found), 'profile', 'profiles')}.")
    return EXIT_OK


@profiles_app.command
def show(
    name: Name, *, external_id: Tenant, known_at: KnownAt = None, as_json: AsJson = False, database: Database = HERE
) -> int:
    """Show one profile with its text, as it is or as it was."""
    known_at_time = moment("--known-at", known_at)

    async def read() -> Profile:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            return await memory.admin.profiles.get(external_id, name, known_at=known_at_time)

    return _print(asyncio.run(read()), as_json=as_json)


@profiles_app.command(name="set")
def set_(
    name: Name,
    question: Annotated[str, Parameter(help="What its text answers.")],
    *,
    external_id: Tenant,
    refresh: Annotated[
        Literal["consolidation", "daily"],
        Parameter(
            help="When it is written again: after each consolidation, or once a day. Both if memory has changed."
        ),
    ] = "consolidation",
    max_tokens: Annotated[int, Parameter(help="The longest text, from 50 to 4,000 estimated tokens.")] = 500,
    refresh_tokens: Annotated[
        int | None, Parameter(help="How many tokens a model may use for one text; default: as configured.")
    ] = None,
    actor: Actor = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Define a profile, or change one. A worker writes its text; `profiles refresh` writes it now."""

    async def write() -> Profile:
        async with opened(database) as memory:
            return await memory.admin.profiles.define(
                external_id,
                name,
                question,
                refresh,
                max_tokens=max_tokens,
                refresh_tokens=refresh_tokens,
                actor=actor,
            )

    return _print(asyncio.run(write()), as_json=as_json)


# Not `refresh`: that is what an option of `set` is called.
@profiles_app.command(name="refresh")
def refresh_(name: Name, *, external_id: Tenant, as_json: AsJson = False, database: Database = HERE) -> int:
    """Write the text of a profile now, even if memory has not changed. If a model is configured for it, it is asked."""

    async def write() -> Profile:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            return await memory.admin.profiles.refresh(external_id, name)

    return _print(asyncio.run(write()), as_json=as_json)


@profiles_app.command
def remove(
    name: Name, *, external_id: Tenant, actor: Actor = None, as_json: AsJson = False, database: Database = HERE
) -> int:
    """Remove a profile: it is no longer updated. Its texts stay for `show --known-at` an earlier time."""

    async def write() -> None:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            await memory.admin.profiles.remove(external_id, name, actor=actor)

    asyncio.run(write())
    if as_json:
        write_json({"removed": name})
    else:
        say(console(), f"The profile {one_line(name)!r} is no longer updated.")
    return EXIT_OK


def _print(profile: Profile, *, as_json: bool) -> int:
    if as_json:
        write_json(profile.model_dump(mode="json"))
        return EXIT_OK
    out = console()
    _show_head(out, profile)
    if profile.text:
        say(out, profile.text, indent=4)
    return EXIT_OK


def _show_head(out: Console, profile: Profile) -> None:
    say(out, f"{one_line(profile.name)}: {one_line(profile.question)}", style="bold")
    say(out, f"{_written(profile)}; written again {_when(profile)}, {profile.max_tokens:,} tokens at most", indent=4)


def _written(profile: Profile) -> str:
    if profile.written_at is None:
        return "not written yet; `worker` or `profiles refresh` does it"
    if not profile.text:
        return f"memory held no answer at {profile.written_at:%Y-%m-%d %H:%M:%S} UTC"
    by = f"by {one_line(profile.model)}" if profile.model else "quoted from memory"
    return f"written {profile.written_at:%Y-%m-%d %H:%M:%S} UTC {by}"


def _when(profile: Profile) -> str:
    return "after a consolidation" if profile.refresh == "consolidation" else "once a day"
