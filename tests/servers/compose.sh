#!/usr/bin/env bash
# Compose files without Docker: compose/main.go reads them with compose-go, the library that Docker Compose is built on.
#
#   compose.sh fetch             Build it (once for each version of it, half a minute) and print its path. Go 1.24 builds it.
#   compose.sh resolve FOLDER    Print what FOLDER/docker-compose.yml and FOLDER/.env come to, as JSON; fails if they do not fit.
#   compose.sh check             Resolve the checkout's docker-compose.yml, with passwords made up and with no memory.env.
#
# The modules that Go fetches have to have the digests in compose/go.sum.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
sources=$(cat "$here"/compose/{go.mod,go.sum,main.go} | sha256sum)
program=${XDG_CACHE_HOME:-$HOME/.cache}/agent-reminiscence/compose-${sources:0:16}

fetch() {
    [[ -x $program ]] && return
    [[ -n $(type -P go) ]] || { echo "compose.sh: no go" >&2; exit 1; }
    mkdir -p "${program%/*}"
    built=$(mktemp "$program.XXXXXX")
    trap 'rm -f "$built"' EXIT
    # Three times at most: a network fails in passing, and what was fetched is kept.
    (cd "$here/compose" && for pause in 5 20; do
        go mod download && break
        sleep "$pause"
    done && nice go build -mod=readonly -trimpath -buildvcs=false -o "$built" .) >&2
    # Of two that build at once, each puts the same in place, whole.
    mv -f "$built" "$program"
    trap - EXIT
}

check() {
    fetch
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cp "$here/../../docker-compose.yml" "$folder"
    sed 's/^\(\w*PASSWORD\)=$/\1=made-up/' "$here/../../.env.example" > "$folder/.env"
    "$program" "$folder" > /dev/null
}

case "${1:-} $#" in
    # Not joined by &&, which would keep a failure inside from ending it.
    "fetch 1") fetch; echo "$program" ;;
    "resolve 2") fetch; "$program" "$2" ;;
    "check 1") check ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
