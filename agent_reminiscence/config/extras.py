"""The error for an optional dependency that is not installed."""

from __future__ import annotations

import re

_EXTRA = re.compile(r"pydantic-ai-slim\[([\w-]+)\]")


def missing_extra(error: ImportError, provider: str) -> str:
    """The extra of pydantic-ai-slim with a provider's client: the one Pydantic AI names, else the provider's name.

    Many providers share a client: `together` and `vllm` need the extra `openai`.
    """
    named = _EXTRA.search(str(error))
    return named[1] if named else provider
