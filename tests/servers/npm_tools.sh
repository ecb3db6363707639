#!/usr/bin/env bash
# What the tests of the server take from npm, in the versions that npm/package-lock.json pins with their hashes.
#
#   npm_tools.sh fetch           Install it outside of the checkout (once for each lock) and print the folder.
#
# Node 20 or later has to be here. No package's own scripts run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
lock=$(cat "$here/npm/package.json" "$here/npm/package-lock.json" | sha256sum)
tools=${XDG_CACHE_HOME:-$HOME/.cache}/agent-reminiscence/npm-tools-${lock:0:16}

fetch() {
    [[ -e $tools/.complete ]] && return
    command -v npm >/dev/null || { echo "npm is missing; Debian: apt-get install npm" >&2; exit 1; }
    mkdir -p "${tools%/*}"
    fetched=$(mktemp -d "$tools.XXXXXX")
    trap 'rm -rf "$fetched"' EXIT
    # The lock holds hashes and no addresses: a registry is asked for by its name and version.
    cp "$here/npm/package.json" "$here/npm/package-lock.json" "$here/npm/.npmrc" "$fetched"
    (cd "$fetched" && npm ci --loglevel=error >&2)
    touch "$fetched/.complete"
    # Of two that fetch at once, the first puts its folder in place.
    mv -T "$fetched" "$tools" 2>/dev/null || [[ -e $tools/.complete ]]
    rm -rf "$fetched"
    trap - EXIT
}

case "${1:-} $#" in
    # Not joined by &&, which would keep a failure inside from ending it.
    "fetch 1") fetch; echo "$tools" ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
