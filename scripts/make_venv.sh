#!/bin/sh
# Make a virtual environment with Python 3.12 or newer, or say what is missing.
# Usage: make_venv.sh FOLDER [INTERPRETER]
set -eu

folder=$1
shift

fits() {
    # Running it is the only proof: a version manager's shim exists even where its Python does not.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

describe() {
    if ! command -v "$1" >/dev/null 2>&1; then
        echo "not found"
    else
        # Python 2 prints its version to the error stream.
        "$1" --version 2>&1 | grep -m 1 '^Python' || echo "found, but does not run"
    fi
}

# Not every dependency has a wheel for the newest Python, so that one comes last.
candidates=${*:-python3.12 python3.13 python3 python python3.14}
python=
looked_for=
for candidate in $candidates; do
    if fits "$candidate"; then
        python=$candidate
        break
    fi
    looked_for="$looked_for
  $candidate: $(describe "$candidate")"
done

if [ -z "$python" ]; then
    cat >&2 <<END
agent_reminiscence needs Python 3.12 or newer, and none was found. Looked for:$looked_for
Install it (Debian, Ubuntu: apt install python3.12 python3.12-venv; macOS: brew install python@3.12;
pyenv: pyenv install 3.12), or name one: make PYTHON=/path/to/python3.12 …
END
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    cat >&2 <<END
$python is Python $version without the modules venv and ensurepip, which make a virtual environment.
Install them (Debian, Ubuntu: apt install python$version-venv), or name another: make PYTHON=/path/to/python3.12 …
END
    exit 1
fi

echo "Making $folder with $("$python" --version) …"
"$python" -m venv --clear "$folder"
