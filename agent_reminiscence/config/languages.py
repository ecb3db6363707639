"""The languages that texts may have; a setting, a write and the reader of words know the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# ISO 639-1 code -> the name of Snowball's stemmer; None: words are kept as they are, or cut into pairs of characters if
# the script has no spaces.
LANGUAGES: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "ar": "arabic",
        "bg": None,
        "bn": None,
        "ca": "catalan",
        "cs": "czech",
        "da": "danish",
        "de": "german",
        "el": "greek",
        "en": "english",
        "eo": "esperanto",
        "es": "spanish",
        "et": "estonian",
        "eu": "basque",
        "fa": "persian",
        "fi": "finnish",
        "fr": "french",
        "ga": "irish",
        "he": None,
        "hi": "hindi",
        "hr": None,
        "hu": "hungarian",
        "hy": "armenian",
        "id": "indonesian",
        "it": "italian",
        "ja": None,
        "km": None,
        "ko": None,
        "lo": None,
        "lt": "lithuanian",
        "lv": None,
        "my": None,
        "ne": "nepali",
        "nl": "dutch",
        "no": "norwegian",
        "pl": "polish",
        "pt": "portuguese",
        "ro": "romanian",
        "ru": "russian",
        "sk": None,
        "sl": None,
        "sr": "serbian",
        "sv": "swedish",
        "ta": "tamil",
        "th": None,
        "tr": "turkish",
        "uk": None,
        "vi": None,
        "yi": "yiddish",
        "zh": None,
    }
)


def refusal(code: object) -> str:
    """Why `code` is refused. The message continues a sentence that begins with its name."""
    return f"{code!r} is not supported; use one of {', '.join(LANGUAGES)}"
