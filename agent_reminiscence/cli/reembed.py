"""The `reembed` command."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import EXIT_OK, EXIT_WRONG, HERE, AdminDsn, AsJson, Database, admin_dsn_of
from agent_reminiscence.cli.terminal import console, count, progress_of_stages, say, write_json
from agent_reminiscence.exceptions import InvalidInputError

if TYPE_CHECKING:
    from agent_reminiscence import AgentMem
    from agent_reminiscence.domain.generation import Generation, GenerationFill, ReembedProgress, ReembedReport


def reembed(
    *,
    provider: Annotated[
        str | None, Parameter(help="Provider of the new vectors, as in embedding_provider; default: as configured.")
    ] = None,
    model: Annotated[
        str | None, Parameter(help="The provider's model; default: as configured, or with --provider, its own.")
    ] = None,
    dimension: Annotated[int | None, Parameter(help="Vector dimension; default: the model's.")] = None,
    status: Annotated[
        bool, Parameter(negative="", help="Change nothing; list the vector generations and how complete they are.")
    ] = False,
    cancel: Annotated[bool, Parameter(negative="", help="Discard the vector generation being built.")] = False,
    drop_old: Annotated[
        bool, Parameter(negative="", help="Drop replaced vectors once they have been unused for a minute.")
    ] = False,
    admin_dsn: AdminDsn = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Rebuild the vectors of all memories with another model, and switch to them.

    Searches and writes continue meanwhile, and other processes follow the switch. If interrupted, run the same command
    again to resume. The replaced vectors are kept until --drop-old or the next change of model.
    """
    if sum((status, cancel, drop_old)) > 1:
        raise InvalidInputError("--status, --cancel and --drop-old are mutually exclusive; use one")
    is_model_named = any(value is not None for value in (provider, model, dimension))
    if is_model_named and (status or cancel or drop_old):
        raise InvalidInputError(
            "--provider, --model and --dimension say what to build; leave them out with --status, --cancel and"
            " --drop-old"
        )
    dsn = admin_dsn_of(admin_dsn)
    if status:
        return asyncio.run(_status(database, as_json=as_json))
    if cancel:
        return asyncio.run(_cancel(database, dsn, as_json=as_json))
    if drop_old:
        return asyncio.run(_drop_old(database, dsn, as_json=as_json))
    report = asyncio.run(_reembed(database, dsn, provider, model, dimension))
    if as_json:
        write_json(report.model_dump(mode="json"))
    else:
        _show(console(), report)
    return EXIT_WRONG if report.vectors_missing else EXIT_OK


def _opened(database: Database) -> AbstractAsyncContextManager[AgentMem]:
    """The memory, whichever model its vectors are from: usually it is not the configured one."""
    from agent_reminiscence import AgentMem

    return AgentMem(database.config(worker=False), embedders=())


async def _reembed(
    database: Database, dsn: str | None, provider: str | None, model: str | None, dimension: int | None
) -> ReembedReport:
    if provider is None and (model is not None or dimension is not None):
        config = database.config()
        provider, model = config.embedding_provider, model or config.embedding_model
    with progress_of_stages() as show:

        def note(progress: ReembedProgress) -> None:
            show(f"Generation {progress.generation}", progress)

        async with _opened(database) as memory:
            return await memory.admin.reembed(
                provider=provider, model=model, dimension=dimension, admin_dsn=dsn, progress=note
            )


async def _status(database: Database, *, as_json: bool) -> int:
    async with _opened(database) as memory:
        generations = await memory.admin.generations()
    if as_json:
        write_json([generation.model_dump(mode="json") for generation in generations])
    else:
        for generation in generations:
            _show_fill(console(), generation)
    return EXIT_OK


async def _cancel(database: Database, dsn: str | None, *, as_json: bool) -> int:
    async with _opened(database) as memory:
        given_up = await memory.admin.cancel_reembed(admin_dsn=dsn)
    if as_json:
        write_json({"cancelled": None if given_up is None else given_up.model_dump(mode="json")})
    elif given_up is None:
        say(console(), "Nothing is being built.")
    else:
        say(console(), f"Discarded: {_name(given_up)}.")
    return EXIT_OK


async def _drop_old(database: Database, dsn: str | None, *, as_json: bool) -> int:
    async with _opened(database) as memory:
        dropped = await memory.admin.drop_old_vectors(admin_dsn=dsn)
    if as_json:
        write_json({"dropped": [generation.model_dump(mode="json") for generation in dropped]})
    elif dropped:
        say(console(), f"Dropped: {', '.join(map(_name, dropped))}.")
    else:
        say(console(), "There are no replaced vectors.")
    return EXIT_OK


def _show(out: Console, report: ReembedReport) -> None:
    say(
        out,
        f"{count(report.vectors_filled, 'chunk', 'chunks')} of {count(report.streams, 'external_id', 'external_ids')}"
        f" got vectors in {report.seconds:.1f} s; searches use {_name(report.generation)}.",
    )
    if report.vectors_missing:
        say(out, f"{count(report.vectors_missing, 'chunk lacks', 'chunks lack')} vectors.", style="yellow")
    if report.replaced is not None:
        say(out, f"{_name(report.replaced)} was replaced; --drop-old drops it.", style="dim")


def _show_fill(out: Console, generation: GenerationFill) -> None:
    done = generation.chunks - generation.vectors_missing
    say(
        out,
        f"{generation.state:<8} {_name(generation)}: {done:,} of {count(generation.chunks, 'chunk', 'chunks')},"
        f" {generation.size_bytes:,} bytes, since {generation.state_since:%Y-%m-%d %H:%M:%S} UTC",
    )


def _name(generation: Generation) -> str:
    return f"generation {generation.number} ({generation.model_name}, {generation.dimension} dimensions)"
