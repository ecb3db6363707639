"""The speed of the default redactor, on plain texts and on the worst cases for its patterns.

    python benchmarks/redaction.py [--megabytes 1] [--personal]

Each text is measured at a tenth of its size and at full size. If the time per character grows with the length, a
pattern is not linear; the last column shows by how much.
"""

from __future__ import annotations

import argparse
import random
import string
import time
from pathlib import Path

import agent_reminiscence
from agent_reminiscence import DefaultRedactor
from benchmarks.common import print_table

_SEED = 7
# Code has most of the beginnings of tokens.
_PACKAGE = Path(agent_reminiscence.__file__).parent / "services"
_WORDS = ("the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "was", "with", "his", "from", "which")
_KEY_LINE = "-----BEGIN PRIVATE " + "KEY-----\n"
# Beginnings without an end, each of which some pattern begins at.
_WORST = (
    "4", "4111 ", "4111 1111 1111 1111 ", "-", _KEY_LINE, _KEY_LINE + "A\n" * 20, "Comment: " + _KEY_LINE, "eyJ",
    "eyJabcdefghijk.", "://", "a://a:", "password=", "password: ", "token=", "key", "sk-", "/ops_eyJ", "=pwd", ":AA",
    "DE12", "DE12 ", "ab12 cd34 ", "mnemonic ", "routing account ", "routing 021000021 account ", "M", "K1", "xoxb-",
    "authorization: bearer ", "curl ", "curl -u a:b ", "curl -u 'a:", "machine a login b ", "cookie: sid=",
    "sid=abcdefg1;", "cookie: sid=abcdefg1;", '"auth": "', "LS0tLS1CRUdJTi", "client-key-data: ", "sl.", "re_", "key_",
    "a_", "a-b_", "vck_", "mot de passe ", "mot de passe : ", "пароль", "пароль: ", "密码", "密码是", "parola parola ",
    "@", "a@", "a@a.", "@a.a-", "+1 ", "0049 ", "030 ", "1 Elm ", "Elm Elm weg ", "1 rue ", "rue Elm ", "via Elm Elm ",
    "passport ", "passport: 1 ", "P<", "phone: 1 2 3 ", "A" * 40 + " ",
    "\u200b", "4\u200b", "\uff14\uff11", "[redacted:jwt]",
)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=1.0, help="length of each text, in millions of characters")
    parser.add_argument("--personal", action="store_true", help="with the rules for personal data")
    arguments = parser.parse_args()
    length = int(arguments.megabytes * 1_000_000)
    redactor = DefaultRedactor(personal="all" if arguments.personal else ())
    numbers = random.Random(_SEED)
    prose = " ".join(numbers.choices(_WORDS, k=length // 4))
    base64 = "".join(numbers.choices(string.ascii_letters + string.digits + "+/", k=length))
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py")))
    texts = {
        "prose": prose,
        "code": (code * (length // len(code) + 1))[:length],
        "prose with accents": prose.replace("e", "é"),
        "base64": base64,
    }
    texts |= {f"{piece[:24]!r} again and again": piece * (length // len(piece)) for piece in _WORST}
    rows = []
    for name, text in texts.items():
        short, whole = _seconds_per_megabyte(redactor, text[: len(text) // 10]), _seconds_per_megabyte(redactor, text)
        rows.append((name, f"{1 / short:.2f}", f"{1 / whole:.2f}", f"{whole / short:.1f}"))
    print_table(("text", "a tenth, MB/s", "full size, MB/s", "times slower"), rows)


def _seconds_per_megabyte(redactor: DefaultRedactor, text: str) -> float:
    """Processor time of the fastest of three runs, per million characters."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        redactor.redact(text)
        best = min(best, time.process_time() - start)
    return best / len(text) * 1_000_000


if __name__ == "__main__":
    main()
