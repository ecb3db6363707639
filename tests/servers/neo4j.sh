#!/usr/bin/env bash
# A real Neo4j community server without Docker: Maven fetches its jars, Java 17 or later runs them.
#
#   neo4j.sh fetch               Fetch the jars (118 MB, once for each version) and print the folder they are in.
#   neo4j.sh run FOLDER PORT     Serve FOLDER on 127.0.0.1:PORT in the foreground, until a signal ends it.
#
# PASSWORD    of the user neo4j; taken when FOLDER has no data yet, and needed then. At least 8 characters.
# OWNER_PID   the server ends when this process does; nobody's if unset.
# HEAP_MB     heap, in MiB (512).        PAGE_CACHE_MB     page cache, in MiB (64).
# JAVA_FLAGS  how Java works; by default such that a start costs half the processor time, and long work is slower.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's|.*<neo4j.version>\(.*\)</neo4j.version>.*|\1|p' "$here/pom.xml")
quick_start="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
jars=${XDG_CACHE_HOME:-$HOME/.cache}/agent-reminiscence/neo4j-community-$version

fetch() {
    [[ -e $jars/.complete ]] && return
    mkdir -p "$jars"
    fetched=$(mktemp -d "$jars.XXXXXX")
    trap 'rm -rf "$fetched"' EXIT
    mvn --quiet --batch-mode -Dstyle.color=never --file "$here/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$fetched" >&2
    # Two that fetch at once put the same files in place; each is renamed whole, and the mark comes last.
    mv -f "$fetched"/*.jar "$jars"
    touch "$jars/.complete"
    rm -rf "$fetched"
    trap - EXIT
}

configure() {
    local folder=$1 port=$2
    mkdir -p "$folder/conf"
    cat > "$folder/conf/neo4j.conf" <<CONF
server.default_listen_address=127.0.0.1
server.default_advertised_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:$port
server.bolt.advertised_address=127.0.0.1:$port
server.http.enabled=false
server.https.enabled=false
dbms.usage_report.enabled=false
db.tx_log.preallocate=false
server.memory.pagecache.size=${PAGE_CACHE_MB:-64}m
# With its default of 5 s a server without any client takes 10 s to stop.
internal.server.bolt.thread_pool_shutdown_wait_time=0s
CONF
}

set_password() {
    local folder=$1
    # For a server that has not run yet, so that it never answers to the password it is shipped with.
    NEO4J_HOME=$folder NEO4J_CONF=$folder/conf java $quick_start -cp "$jars/*" \
        org.neo4j.cli.AdminTool dbms set-initial-password "${PASSWORD:?is needed for a new server}"
}

# After `exec` this shell's own number is the server's.
end_with_owner() {
    local server=$$
    while kill -0 "$server" 2>/dev/null; do
        kill -0 "$OWNER_PID" 2>/dev/null || kill -KILL "$server"
        sleep 2
    done
}

run() {
    local folder=$1 port=$2
    fetch
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd)
    configure "$folder" "$port"
    [[ -d $folder/data/databases ]] || set_password "$folder"
    [[ -z ${OWNER_PID:-} ]] || end_with_owner &
    # Without quotes: several words.
    exec java ${JAVA_FLAGS-$quick_start} "-Xmx${HEAP_MB:-512}m" \
        --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/java.io=ALL-UNNAMED \
        --add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED \
        --add-opens=java.base/java.util.concurrent=ALL-UNNAMED -cp "$jars/*" \
        org.neo4j.server.CommunityEntryPoint --home-dir="$folder" --config-dir="$folder/conf" --console-mode
}

case "${1:-} $#" in
    # Not joined by &&, which would keep a failure inside from ending it.
    "fetch 1") fetch; echo "$jars" ;;
    "run 3") run "$2" "$3" ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
