"""The `ingest` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import HERE, AsJson, Database, Tenant


def ingest(
    paths: Annotated[list[Path], Parameter(help="Files and folders; - for standard input.", allow_leading_hyphen=True)],
    /,
    *,
    external_id: Tenant,
    file_format: Annotated[
        Literal["txt", "md", "html", "csv", "tsv", "json", "jsonl", "zip"] | None,
        Parameter(
            name="--format",
            help="Read every file in this format, whatever its ending, and every file of a folder that may be text;"
            " required for standard input.",
        ),
    ] = None,
    on_error: Annotated[
        Literal["refuse", "skip"],
        Parameter(
            help="What to do with a message of a chat that cannot be read: refuse its file, or skip the message and"
            " name it at the end."
        ),
    ] = "refuse",
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Remember documents (.txt, .md, .html), tables (.csv, .tsv) and chats (.json, .jsonl).

    A document or table becomes one memory, a chat one per conversation. All files are checked before anything is
    written; a faulty file is skipped entirely and named at the end, and the exit code is 1; with --on-error skip, only
    the messages that cannot be read are. Content imported before is not imported again, even from another path, so the
    same command resumes an interrupted ingest. Files of a folder that are of another kind are counted and named.
    """
    # Imported here: reading files brings most of the library.
    from agent_reminiscence.cli.ingestion import remember

    return remember(paths, external_id, file_format, database, skips_faults=on_error == "skip", as_json=as_json)
