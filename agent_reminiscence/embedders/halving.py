"""Finds the text that an embedder fails on: a failed batch is halved until that text is alone.

First the embedder is tested with one harmless word. If it fails on that too, no text is to blame, so none is sought.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agent_reminiscence.exceptions import EmbedderAwayError, EmbeddingError

HARMLESS_TEXT = "memory"
"""The text an embedder is tested with: one that has no vector for this has none for anything."""


async def embed_word(embed: Callable[[list[str]], Awaitable[Sequence[Sequence[float]]]], name: str) -> Sequence[float]:
    """The vector of one harmless word.

    Args:
        name: The model's name, for the message.

    Raises:
        EmbeddingError: `embed` did not return one vector, or raised this itself.
    """
    made = await embed([HARMLESS_TEXT])
    if len(made) != 1:
        raise EmbeddingError(f"{name} returned {len(made)} vectors for 1 text")
    return made[0]


async def embeds_word(embed: Callable[[list[str]], Awaitable[Sequence[Sequence[float]]]]) -> bool:
    """Whether one harmless word gets a vector: if so, a text is to blame for another failure."""
    try:
        await embed_word(embed, "")
    except EmbeddingError:
        return False
    return True


async def in_halves[Item, Result](
    items: Sequence[Item],
    embed: Callable[[Sequence[Item]], Awaitable[Sequence[Result | EmbeddingError]]],
    is_one_to_blame: Callable[[EmbeddingError], Awaitable[bool]],
) -> list[Result | EmbeddingError]:
    """Embed `items`, halving what fails until the failing item is alone.

    Args:
        embed: Returns one result per item, or raises EmbeddingError if there is none for any of them.
        is_one_to_blame: Whether that error, raised for several items, is the fault of some of them only.

    Returns:
        One result per item, in order: what `embed` returned, or the error it raised.
    """
    try:
        return list(await embed(items))
    except EmbeddingError as error:
        if len(items) == 1 or not await is_one_to_blame(error):
            return [error] * len(items)
    middle = len(items) // 2
    first = await in_halves(items[:middle], embed, is_one_to_blame)
    return first + await in_halves(items[middle:], embed, is_one_to_blame)


async def embed_in_halves(
    texts: Sequence[str], embed: Callable[[Sequence[str]], Awaitable[list[list[float]]]]
) -> list[list[float] | EmbeddingError]:
    """The vector of each text, or why it has none, from an `embed` that fails for the whole batch.

    An EmbedderAwayError is no text's fault. After any other EmbeddingError the harmless word is tried, once.
    """
    is_able = False

    async def is_one_to_blame(error: EmbeddingError) -> bool:
        nonlocal is_able
        if isinstance(error, EmbedderAwayError):
            return False
        is_able = is_able or await embeds_word(embed)
        return is_able

    return await in_halves(texts, embed, is_one_to_blame)
