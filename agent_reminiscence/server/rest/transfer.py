"""A tenant's whole ledger as a file: out of this database, or into it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import IO, Final

from fastapi import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from agent_reminiscence.domain.transfer import ImportReport
from agent_reminiscence.exceptions import CommitUnknownError, ExternalIdNotFoundError, InvalidInputError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.problems import ProblemError
from agent_reminiscence.server.rest.routes import Memory, Tenant, as_json, operations, says

_FILE_TYPE: Final = "application/zstd"
_TAKEN: Final = (_FILE_TYPE, "application/octet-stream")
_BINARY: Final = {"type": "string", "format": "binary"}
_PART_BYTES: Final = 1 << 20

router = operations("transfer")


class _FileStream(StreamingResponse):
    """The bytes of an open file, which is closed when the answer ends, however that happens."""

    media_type = _FILE_TYPE

    def __init__(self, file: IO[bytes], size_bytes: int) -> None:
        super().__init__(
            _parts(file),
            headers={
                "Content-Length": str(size_bytes),
                "Content-Disposition": 'attachment; filename="events.jsonl.zst"',
                "Cache-Control": "no-store",
            },
        )
        self._file = file

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Send the file."""
        with self._file:
            await super().__call__(scope, receive, send)


async def _parts(file: IO[bytes]) -> AsyncGenerator[bytes]:
    while part := await asyncio.to_thread(file.read, _PART_BYTES):
        yield part


@router.get(
    "/export",
    response_class=Response,
    **says(
        Scope.ADMIN,
        ExternalIdNotFoundError,
        responses={
            200: {"description": "All events, as one moment has them.", "content": {_FILE_TYPE: {"schema": _BINARY}}}
        },
    ),
)
async def export_events(memory: Memory, tenant: Tenant) -> Response:
    """All events of the tenant, in the format that `agent-reminiscence export` writes."""
    with await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="reminiscence-export-") as folder:
        path = Path(folder) / "events.jsonl.zst"
        report = await memory.admin.export(tenant, path)
        # Its name goes with the folder, so nothing is left behind, whatever happens to this process.
        file = await asyncio.to_thread(path.open, "rb")
    return _FileStream(file, report.size_bytes)


@router.post(
    "/import",
    response_model=ImportReport,
    **says(
        Scope.ADMIN,
        CommitUnknownError,
        kinds=[(413, "too-large"), (415, "unsupported-media-type")],
        requestBody={"required": True, "content": {one: {"schema": _BINARY} for one in _TAKEN}},
    ),
)
async def import_events(request: Request, memory: Memory, tenant: Tenant) -> Response:
    """Import a file that an export wrote, completely or not at all, as events of this tenant.

    The tenant must be new, or hold only the same events. Importing the same file again does nothing; a later export
    adds what is new. The checksum shows that a file is complete, not who wrote it: import only files you trust.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _TAKEN:
        raise ProblemError(415, "unsupported-media-type", f"send the file with Content-Type: {_FILE_TYPE}")
    with await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="reminiscence-import-") as folder:
        path = Path(folder) / "events.jsonl.zst"
        await _receive(request, path, request.app.state.server_config.max_import_bytes)
        try:
            return as_json(await memory.admin.import_(path, tenant))
        except InvalidInputError as error:
            # Where the file lay is nobody's concern.
            raise InvalidInputError(str(error).replace(str(path), "the file")) from None


async def _receive(request: Request, path: Path, max_bytes: int) -> None:
    """Write a body to a file, part by part.

    Raises:
        ProblemError: It is too long.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    size = 0
    with await asyncio.to_thread(path.open, "wb") as file:
        async with aclosing(request.stream()) as parts:
            async for part in parts:
                size += len(part)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                await asyncio.to_thread(file.write, part)


def _too_large(max_bytes: int) -> ProblemError:
    return ProblemError(
        413, "too-large", f"the file is longer than {max_bytes:,} bytes; use `agent-reminiscence import` for it"
    )
