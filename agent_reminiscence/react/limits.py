"""The longest that a client may send; each is refused with its limit named."""

from typing import Final

# As for every id of the package.
MAX_ID_CHARACTERS: Final = 256
# As for a question to the memory.
MAX_QUESTION_CHARACTERS: Final = 20_000
MAX_STATE_CHARACTERS: Final = 20_000
# Steps of earlier attempts that a client may send with its question.
MAX_STEPS: Final = 1_000
MAX_FACT_CHARACTERS: Final = 10_000
MAX_TOP_K: Final = 200
