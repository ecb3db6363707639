"""Known embedding models: the dimensions of their vectors, and the prefixes they expect before a text.

A model trained with prefixes silently finds markedly less without them. Models that are not listed here work too: they
are asked for their dimension and get texts without a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model, as its card describes it.

    Attributes:
        dimension: The length of its vectors; None if it depends on the tag or is unknown.
        tag_dimensions: The same by tag, `""` for no tag, if models of several sizes share a name.
        other_dimensions: Other dimensions available on request.
        any_shorter: Whether any smaller dimension is available (Matryoshka).
        query_prefix: Put before a question.
        document_prefix: Put before a text to be found.
        texts_per_request: How many texts its server takes at once; None is any number.
    """

    dimension: int | None = None
    tag_dimensions: dict[str, int] = field(default_factory=dict)
    other_dimensions: tuple[int, ...] = ()
    any_shorter: bool = False
    query_prefix: str = ""
    document_prefix: str = ""
    texts_per_request: int | None = None

    def gives(self, dimension: int, native: int) -> bool:
        """Whether its vectors, by default `native` numbers long, may have `dimension`."""
        return (
            dimension == native or dimension in self.other_dimensions or (self.any_shorter and 0 < dimension < native)
        )

    def is_other(self, dimension: int | None) -> bool:
        """Whether `dimension` is not the model's own: such vectors must be requested, and have a different name."""
        if dimension is None or dimension == self.dimension:
            return False
        return self.any_shorter or dimension in self.other_dimensions


_PASSAGES: Final = "Represent this sentence for searching relevant passages: "
# Without a trailing space, as in the model's training.
_QWEN_TASK: Final = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

OLLAMA_MODELS: Final[dict[str, KnownModel]] = {
    "all-minilm": KnownModel(384),
    "bge-large": KnownModel(1024, query_prefix=_PASSAGES),
    "bge-m3": KnownModel(1024),
    "embeddinggemma": KnownModel(
        768,
        query_prefix="task: search result | query: ",
        document_prefix="title: none | text: ",
        other_dimensions=(512, 256, 128),
    ),
    "granite-embedding": KnownModel(tag_dimensions={"": 384, "30m": 384, "278m": 768}),
    "mxbai-embed-large": KnownModel(1024, query_prefix=_PASSAGES, any_shorter=True),
    # Shortening its vectors would take a further step that no server performs.
    "nomic-embed-text": KnownModel(768, query_prefix="search_query: ", document_prefix="search_document: "),
    "paraphrase-multilingual": KnownModel(768),
    "qwen3-embedding": KnownModel(
        tag_dimensions={"": 4096, "0.6b": 1024, "4b": 2560, "8b": 4096}, query_prefix=_QWEN_TASK, any_shorter=True
    ),
    "snowflake-arctic-embed": KnownModel(
        tag_dimensions={"": 1024, "22m": 384, "33m": 384, "110m": 768, "137m": 768, "335m": 1024},
        query_prefix=_PASSAGES,
    ),
    "snowflake-arctic-embed2": KnownModel(1024, query_prefix="query: ", any_shorter=True),
}
"""By name in Ollama's library, without a tag. Source: each model's card at huggingface.co, linked from its page at
ollama.com/library.
"""

_VOYAGE: Final = KnownModel(1024, other_dimensions=(2048, 512, 256))

# For hosted models the provider adds what a question needs, so only their dimensions are listed here.
HOSTED_MODELS: Final[dict[str, KnownModel]] = {
    "openai:text-embedding-3-small": KnownModel(1536, any_shorter=True),
    "openai:text-embedding-3-large": KnownModel(3072, any_shorter=True),
    "openai:text-embedding-ada-002": KnownModel(1536),
    "google:gemini-embedding-001": KnownModel(3072, any_shorter=True),
    "google:gemini-embedding-2": KnownModel(3072, any_shorter=True),
    "google-cloud:gemini-embedding-001": KnownModel(3072, any_shorter=True, texts_per_request=1),
    "google-cloud:gemini-embedding-2": KnownModel(3072, any_shorter=True, texts_per_request=1),
    "cohere:embed-v4.0": KnownModel(1536, other_dimensions=(1024, 512, 256)),
    "cohere:embed-english-v3.0": KnownModel(1024),
    "cohere:embed-multilingual-v3.0": KnownModel(1024),
    "voyageai:voyage-4-large": _VOYAGE,
    "voyageai:voyage-4": _VOYAGE,
    "voyageai:voyage-4-lite": _VOYAGE,
    "voyageai:voyage-3-large": _VOYAGE,
    "voyageai:voyage-3.5": _VOYAGE,
    "voyageai:voyage-3.5-lite": _VOYAGE,
    "voyageai:voyage-code-3": _VOYAGE,
    "voyageai:voyage-finance-2": KnownModel(1024),
    "voyageai:voyage-law-2": KnownModel(1024),
    "bedrock:amazon.titan-embed-text-v2:0": KnownModel(1024, other_dimensions=(512, 256)),
    "bedrock:amazon.nova-2-multimodal-embeddings-v1:0": KnownModel(3072, other_dimensions=(1024, 384, 256)),
    "bedrock:cohere.embed-v4:0": KnownModel(1536, other_dimensions=(1024, 512, 256)),
    "bedrock:cohere.embed-english-v3": KnownModel(1024),
    "bedrock:cohere.embed-multilingual-v3": KnownModel(1024),
}
"""By `provider:model`, in Pydantic AI's form. Source: the providers' pages on embeddings at platform.openai.com,
ai.google.dev, cloud.google.com (which names the one text a request), docs.cohere.com, docs.voyageai.com and
docs.aws.amazon.com.
"""

# These always truncate texts that are too long for the model: Google's interface does so by default and Pydantic AI has
# no setting for it; a sentence transformer always does.
CUTTING_PROVIDERS: Final = frozenset({"google", "google-cloud", "sentence-transformers"})


def find_ollama_model(name: str) -> KnownModel:
    """What is known of an Ollama model, by its name with or without a tag; nothing for most."""
    base, _, tag = name.partition(":")
    known = OLLAMA_MODELS.get(base, KnownModel())
    if known.dimension is not None:
        return known
    # `335m-l-fp16` is the model `335m` with rounded weights.
    return replace(known, dimension=known.tag_dimensions.get(tag.partition("-")[0]))


def find_hosted_model(name: str) -> KnownModel:
    """What is known of a hosted model, by `provider:model`; an unlisted one may be asked for any dimension."""
    return HOSTED_MODELS.get(name, KnownModel(any_shorter=True))
