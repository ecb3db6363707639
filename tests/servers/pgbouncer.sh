#!/usr/bin/env bash
# PgBouncer, for the tests of connection poolers: the one of this machine's Debian, and a newer one.
#
#   pgbouncer.sh debian          Print the path of Debian's program; installed first where it is missing.
#   pgbouncer.sh newer           Print the path of one that takes prepared statements along, 1.21 or later: Debian's, or
#                                one that is built (once, half a minute) from the source in Debian 13.
#
# What is missing is installed with apt-get, which takes root. The source has to have the digest in Debian's signed lists.
#
# PGBOUNCER   path of another program instead of Debian's.
set -euo pipefail

release=trixie
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agent-reminiscence/pgbouncer-$release
# Debian keeps it where only root looks.
PATH=$PATH:/usr/sbin

fail() {
    echo "$1" >&2
    exit 1
}

# install PACKAGE...: as root on Debian.
install_packages() {
    [[ $(id -u) == 0 && -n $(type -P apt-get) ]] \
        || fail "PgBouncer is missing, and only root on Debian can install it here: apt-get install $*"
    export DEBIAN_FRONTEND=noninteractive
    {
        apt-get update -qq
        # A service of this name is nobody's wish: the tests start their own.
        RUNLEVEL=1 apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
    } >&2
}

debian() {
    if [[ -n ${PGBOUNCER:-} ]]; then
        [[ -x $PGBOUNCER ]] || fail "PGBOUNCER is $PGBOUNCER, which is no program"
        echo "$PGBOUNCER"
        return
    fi
    [[ -n $(type -P pgbouncer) ]] || install_packages pgbouncer
    type -P pgbouncer
}

takes_statements_along() {
    local version
    version=$("$1" --version | sed -n 's/^PgBouncer //p')
    [[ $(printf '%s\n' 1.21 "$version" | sort -V | head -n 1) == 1.21 ]]
}

newer() {
    local program
    program=$(debian)
    if takes_statements_along "$program"; then
        echo "$program"
        return
    fi
    mkdir -p "$cache"
    # Two that start at once: the second waits, and finds everything there.
    exec 9> "$cache/.lock"
    flock 9
    takes_statements_along "$cache/pgbouncer" 2> /dev/null || build >&2
    exec 9>&-
    echo "$cache/pgbouncer"
}

build() {
    local site package
    [[ -n $(type -P apt-get) ]] || fail "a newer PgBouncer is missing, and is built with apt-get only"
    for package in libevent-dev libssl-dev pkg-config make gcc; do
        dpkg --status "$package" > /dev/null 2>&1 || install_packages libevent-dev libssl-dev pkg-config make gcc
    done
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
    [[ -n $site ]] || fail "a newer PgBouncer is missing, and apt-get knows no mirror of Debian to fetch its source from"
    folder=$(mktemp -d)
    # Not local: the trap comes after this function.
    trap 'rm -rf "$folder"' EXIT
    mkdir -p "$folder"/{lists,cache,source}
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $release main" > "$folder/sources.list"
    # Lists of its own: what this machine installs stays what it is.
    cat > "$folder/apt.conf" <<CONF
Dir::Etc::sourcelist "$folder/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$folder/lists";
Dir::Cache "$folder/cache";
APT::Sandbox::User "$(id -un)";
CONF
    (
        export APT_CONFIG=$folder/apt.conf
        cd "$folder/source"
        apt-get update -qq
        apt-get source -qq --download-only pgbouncer
        tar --extract --strip-components=1 --file pgbouncer_*.orig.tar.gz
        ./configure --quiet --without-cares
        make --silent pgbouncer
    )
    mv "$folder/source/pgbouncer" "$cache/pgbouncer"
}

case "${1:-} $#" in
    "debian 1") debian ;;
    "newer 1") newer ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
