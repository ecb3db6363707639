"""Words that a model's template uses to say who speaks, and that a text must not say."""

from __future__ import annotations

import re
from typing import Final

from agent_reminiscence.text.invisible import INVISIBLE

_BAR: Final = "|\uff5c\u2223"
_WORDS: Final = "|".join(
    (
        # Turns, reasoning and tools of Gemma, Qwen, Hermes, DeepSeek, GLM, Granite and others.
        r"(?:start|end)_of_(?:turn|role|text|image|audio|thought)|(?:begin|end)_of_(?:text|sentence|solution)",
        r"think|thinking|thought|reasoning|seed:think|minimax:tool_call",
        r"tools|tool_(?:calls?|code|outputs?|responses?|results?)|function_(?:calls?|results?|response)",
        r"im_(?:start|end|sep)",
        # Ends and fillers of a text.
        r"s|bos|eos|pad|unk|mask|sep|cls|eod|eot|eom|sop|gmask|endoftext|extra_id_\d+|unused_?\d+|reserved_\w+|0x[0-9a-f]{2}",
    )
)
# As their tokenizers write them, and no other way: `[args]` and `[middle]` are code.
_IN_BRACKETS: Final = "|".join(
    (
        # Of Llama 2 and Mistral.
        r"/?(?:INST|THINK|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS?|TOOL_RESULTS|TOOL_CONTENT|ARGS|CALL_ID|IMG|AUDIO)",
        r"TRANSCRIBE|PREFIX|SUFFIX|MIDDLE|IMG_BREAK|IMG_END|BEGIN_AUDIO|gMASK|sMASK",
    )
)
CONTROL_TOKEN: Final = re.compile(
    rf"<[{_BAR}](?P<barred>[^<>\n]{{1,80}}?)[{_BAR}]>"
    rf"|<(?P<named>/?(?:{_WORDS}))\s*/?>"
    r"|<<(?P<doubled>/?SYS)>>"
    rf"|\[(?P<bracketed>(?-i:{_IN_BRACKETS}))\]"
    # Of EXAONE.
    r"|\[\|(?P<squared>\w{1,40})\|\]",
    re.IGNORECASE,
)
"""What a server may take for a token of its own: `<|im_start|>`, `</think>`, `<start_of_turn>`, `[INST]`, `<<SYS>>`."""

_OTHER_BRACKETS: Final = str.maketrans("<>[]", "\u2039\u203a()")


def defused(text: str) -> str:
    """`text` with other brackets around every control token, so that it is read as words; as long as before."""
    return CONTROL_TOKEN.sub(lambda match: match[0].translate(_OTHER_BRACKETS), text)


def clean(text: str) -> str:
    """`text` without invisible characters and control tokens; line breaks stay."""
    # In this order: a character that is taken out may have divided a token.
    return defused(INVISIBLE.sub("", text))
