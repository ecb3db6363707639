"""Evidence recall on a year of phone data: does a search return the items that hold the answer?

    python -m benchmarks.lifebench --data FOLDER

FOLDER holds users of LifeBench (Apache-2.0) as `*.turns.json`: messages, notes, calls, calendar entries and
notifications in chronological order, and questions with the ids of the items that answer them. Each day is one memory
whose lines are the items. The rest is as in `locomo.py`. The data is not part of this repository.
"""

from __future__ import annotations

from benchmarks.conversations import load_lifebench
from benchmarks.locomo import main

if __name__ == "__main__":
    main(load_lifebench, "folder of *.turns.json")
