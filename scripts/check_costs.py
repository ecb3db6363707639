"""List the tests of `make test` that cost far more than its budget allows, from what the last run has measured.

tests/support/costs.py has the budget, and says how a test over it is marked. There is a margin because a machine may be
slower than ours, and because the first test to use something pays for setting it up.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

MARGIN = 8


def main() -> int:
    """Print what is over the margin; 1 if there is any, 2 without a measurement."""
    file = Path(sys.argv[1])
    if not file.exists():
        print(f"{file} does not exist: run `make test` first", file=sys.stderr)
        return 2
    told = json.loads(file.read_text(encoding="utf-8"))
    seconds: dict[str, float] = told["seconds"]
    limit = told["budget_seconds"] * MARGIN
    # A document has no marks.
    tests = {test: cost for test, cost in seconds.items() if not test.partition("::")[0].endswith(".md")}
    over = {test: cost for test, cost in tests.items() if cost > limit and test not in told["promises"]}
    for test in sorted(over, key=over.__getitem__, reverse=True):
        print(f"{over[test]:6.2f} s  {test}")
    if over:
        print(
            f"over {limit:g} s: mark each `thorough`, or `promise` if it shows a promise of README.md", file=sys.stderr
        )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
