#!/usr/bin/env bash
# Debian's Chromium, for the tests that look at pages.
#
#   chromium.sh find             Print the path of the program; it fails where there is none.
#   chromium.sh fetch            Install it where there is none, which takes root and apt-get, and print the path.
#
# CHROMIUM    path of another one.
set -euo pipefail

find_program() {
    command -v "${CHROMIUM:-chromium}"
}

fetch() {
    find_program >/dev/null && return
    if [[ -n ${CHROMIUM:-} ]]; then
        echo "CHROMIUM is $CHROMIUM, which is no program" >&2
        exit 1
    fi
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        echo "Chromium is missing, and only root on Debian can install it here: apt-get install chromium" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >&2
}

case "${1:-} $#" in
    "find 1") find_program ;;
    # Not joined by &&, which would keep a failure inside from ending it.
    "fetch 1") fetch; find_program ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
