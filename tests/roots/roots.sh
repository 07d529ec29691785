# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# Sourced by make and run: which roots there are, where they are, and what is in them.

roots_suites=(trixie forky bookworm)
roots_default=/var/tmp/ethmx-roots
roots_dir=${EMX_ROOTS:-$roots_default}
roots_told=no # to end

# In a root: where the sources are, and what tells of it.
roots_sources=/ethmx
roots_record=/etc/ethmx-root

# Packages that other suites than Debian 12 call by other names: suite, name in tests/packages.sh, names there.
roots_names=(
    "trixie libclang-rt-14-dev libclang-rt-19-dev"
    "trixie libopenmpi-dev libopenmpi-dev libpmix-dev"
    "forky libclang-rt-14-dev libclang-rt-21-dev"
    "forky libopenmpi-dev libopenmpi-dev libpmix-dev"
)

roots_die() {
    echo "roots/${0##*/}: $*" >&2
    exit 2
}

roots_need_root() {
    [ "$(id -u)" = 0 ] || roots_die "this needs root: a root is made and entered with mounts and namespaces"
}

roots_check_suite() {
    local suite
    for suite in "${roots_suites[@]}"; do
        [ "$suite" != "$1" ] || return 0
    done
    roots_die "there is no root \"$1\" (${roots_suites[*]})"
}

# roots_lock MODE NAME: holds $roots_dir/NAME.lock until this process ends; --shared by those who use a root, --exclusive
# by who replaces it.
roots_lock() {
    local lock
    exec {lock}>"$roots_dir/$2.lock"
    flock --nonblock "$1" "$lock" || {
        echo "waiting for another process that uses $roots_dir/$2" >&2
        flock "$1" "$lock"
    }
}

# roots_enclose SIGNAL OPTIONS COMMAND...: runs a command in mount, PID and IPC namespaces of its own (OPTIONS: more, as of
# unshare) and returns its exit status. When it ends, or this process does, however that is, all processes and mounts in
# them are gone. If this process is told to end, the first process inside gets SIGNAL.
roots_enclose() {
    local signal=$1 child status=0
    shift
    # A background job of bash ignores ^C and has no input unless told otherwise.
    (
        trap - INT QUIT
        exec setpriv --pdeathsig KILL unshare --mount --pid --ipc --fork --kill-child "$@"
    ) <&0 &
    child=$!
    # shellcheck disable=SC2064
    trap "roots_told=yes && pkill -$signal -P $child || true" INT TERM HUP
    roots_await "$child" || status=$?
    trap - INT TERM HUP
    return $status
}

# roots_await CHILD: its exit status. A signal that has a handler ends bash's wait.
roots_await() {
    local status
    while :; do
        status=0
        wait "$1" || status=$?
        kill -0 "$1" 2>/dev/null || return $status
    done
}
