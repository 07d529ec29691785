# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
#
# Part of ethmx-cluster, which sets name, dir, self and here: bad wires. fault.bpf.c says how a frame goes through them. The programs and maps are loaded once
# for a cluster and pinned in the switch's own BPF file system; a command then only writes rules or reads counters.

fault_pins=/sys/fs/bpf/fault
fault_rules=$fault_pins-maps/rules
fault_counts=$fault_pins-maps/counts

fault_usage="usage: ethmx-cluster fault NODE|all [--dir in|out|both] [--drop P] [--dup P] [--reorder P] [--corrupt P]
                            [--ethertype X|any] [--protocol udp|tcp|icmp|any] [--hold US] [--mark SIZE]
                            [--nowhere] [--disown]
       ethmx-cluster fault clear|stats"

# ---- On the host: the command line ----

cmd_fault() {
    local what=${1:-}
    [ $# -gt 0 ] || die "$fault_usage"
    need_root
    need_cluster
    need_switch
    case $what in
    clear) on_switch _fault_clear ;;
    stats) on_switch _fault_stats ;;
    *)
        [ "$what" = all ] || node_names | grep -qx -e "$what" || die "there is no node $what"
        fault_on "$@"
        ;;
    esac
}

# fault_on NODE|all OPTIONS...
fault_on() {
    local target=$1 dirs='out in' ethertype=0 protocol=0 drop=0 dup=0 reorder=0 corrupt=0 hold=2000 disown=0 nowhere=0
    local words queue_rule=(0 0 0)
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --disown) disown=1 && shift && continue ;;
        --nowhere) nowhere=1 && shift && continue ;;
        esac
        [ $# -gt 1 ] || die "$1: unknown, or without a value
$fault_usage"
        case $1 in
        --dir) dirs=$(fault_dirs "$2") ;;
        --drop) drop=$(millionths "$2") ;;
        --dup) dup=$(millionths "$2") ;;
        --reorder) reorder=$(millionths "$2") ;;
        --corrupt) corrupt=$(millionths "$2") ;;
        --ethertype) ethertype=$(parse_ethertype "$2") ;;
        --protocol) protocol=$(parse_protocol "$2") ;;
        --mark)
            words=$(parse_mark "$2")
            read -ra queue_rule <<<"$words"
            ;;
        --hold) number "the time to hold" "$2" && hold=$2 ;;
        *) die "unknown option $1
$fault_usage" ;;
        esac
        shift 2
    done
    fault_need_tools
    on_switch _fault_set "$target" "$dirs" "$hold" "$ethertype" "$protocol" "$drop" "$dup" "$reorder" "$corrupt" \
        "${queue_rule[@]}" "$disown" "$nowhere"
}

# tc's units: 1kbit are 1000 bits a second, 1kb are 1024 bytes.
bytes_of() {
    local factor
    [[ $1 =~ ^([0-9]+)(|[kmg]b|[kmg]bit)$ ]] || die "\"$1\": give a number and kb, mb, or kbit, mbit, gbit"
    case ${BASH_REMATCH[2]} in
    '') factor=1 ;;
    kb) factor=1024 ;;
    mb) factor=1048576 ;;
    gb) factor=1073741824 ;;
    kbit) factor=125 ;;
    mbit) factor=125000 ;;
    gbit) factor=125000000 ;;
    esac
    echo $((BASH_REMATCH[1] * factor))
}

# What fault.bpf.c wants to know of a port's queue that marks what makes it longer than SIZE: see struct rule. What tbf is
# made with is in build_port.
parse_mark() {
    local above bytes most
    if [ -z "$rate" ] || [ -z "$queue" ]; then die "--mark needs a cluster that was made with --rate and --queue"; fi
    above=$(bytes_of "$1")
    bytes=$(bytes_of "$rate")
    most=$(bytes_of "$queue")
    echo "$bytes $(((bucket_bytes + above) * 1000000 / bytes)) $(((bucket_bytes + most) * 1000000 / bytes))"
}

fault_dirs() {
    case $1 in
    in | out) echo "$1" ;;
    both) echo 'out in' ;;
    *) die "--dir is in (what the node receives), out (what it sends) or both" ;;
    esac
}

# Percent, with or without the sign, to millionths.
millionths() {
    [[ ${1%\%} =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "\"$1\" is no percentage"
    awk -v p="${1%\%}" 'BEGIN { if (p > 100) exit 1; printf "%.0f\n", p * 10000 }' || die "\"$1\" is more than all"
}

parse_ethertype() {
    case $1 in
    any) echo 0 ;;
    *)
        [[ $1 =~ ^0x[0-9a-fA-F]{1,4}$ ]] || die "an EtherType is 0x and four digits, or any"
        echo $(($1))
        ;;
    esac
}

# Of IPv4.
parse_protocol() {
    case $1 in
    any) echo 0 ;;
    icmp) echo 1 ;;
    tcp) echo 6 ;;
    udp) echo 17 ;;
    *) die "--protocol is udp, tcp, icmp or any" ;;
    esac
}

fault_need_tools() {
    need clang clang
    need bpftool bpftool
    need tc iproute2
    [ -e /usr/include/bpf/bpf_helpers.h ] || die "the headers of libbpf are missing (on Debian: apt-get install libbpf-dev)"
}

on_switch() {
    (cd / && "$dir/enter" switch bash "$self" --name "$name" "$@")
}

# ---- On the switch ----

# Once for a cluster; if it stops half way, the next try begins anew.
fault_load() {
    local node
    [ ! -e /run/fault.loaded ] || return 0
    rm -rf "$fault_pins" "$fault_pins-maps"
    clang -O2 -g -Wall -target bpf -I"/usr/include/$(uname -m)-linux-gnu" \
        -DHELD_IFINDEX="$(ifindex ethmx-held)" -c "$here/fault.bpf.c" -o "$dir/fault.o"
    mkdir "$fault_pins" "$fault_pins-maps"
    bpftool prog loadall "$dir/fault.o" "$fault_pins" pinmaps "$fault_pins-maps"
    fault_attach ethmx-held ingress fault_release
    for node in $(node_names); do
        has_port "$node" || continue
        fault_attach "ethmx-$node" ingress fault_out
        fault_attach "ethmx-$node" egress fault_in
    done
    touch /run/fault.loaded
}

ifindex() {
    cat "/sys/class/net/$1/ifindex"
}

# A node that was killed has none.
has_port() {
    [ -e "/sys/class/net/ethmx-$1" ]
}

# fault_attach LINK HOOK PROGRAM
fault_attach() {
    tc qdisc add dev "$1" clsact 2>/dev/null || true # the other hook may have brought it
    tc filter replace dev "$1" "$2" handle 1 pref 1 bpf direct-action object-pinned "$fault_pins/$3"
}

# fault_hold MICROSECONDS: start the holder, or another with that time; /run/holder has its time and its process
fault_hold() {
    local word='' us=0 pid=0
    [ ! -e /run/holder ] || read -r us pid </run/holder
    [ "$us" -ne "$1" ] || return 0
    [ "$pid" -eq 0 ] || kill "$pid"
    read -r word < <(exec setsid "$dir/holder" ethmx-holder "$1" </dev/null 2>>"$dir/log") || true
    [ "$word" = ready ] || die "no process to hold frames back: $(tail -n 1 "$dir/log")"
    echo "$1 $!" >/run/holder
}

# fault_slot NODE DIR: where the rule and the counters are
fault_slot() {
    local index
    index=$(ifindex "ethmx-$1")
    case $2 in
    out) echo $((index * 2)) ;;
    in) echo $((index * 2 + 1)) ;;
    esac
}

# le32 NUMBER...: as bpftool wants the bytes of a key or a value
le32() {
    local n
    for n in "$@"; do
        printf '%d %d %d %d ' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) $((n >> 24 & 255))
    done
}

# fault_write MAP SLOT NUMBER...
fault_write() {
    local map=$1 slot=$2
    shift 2
    # shellcheck disable=SC2046 # words are what is wanted
    bpftool map update pinned "$map" key $(le32 "$slot") value $(le32 "$@")
}

# fault_set NODE|all DIRS HOLD ETHERTYPE PROTOCOL DROP DUP REORDER CORRUPT RATE MARK MOST DISOWN NOWHERE
fault_set() {
    local node way targets=$1
    [ "$1" = all ] || has_port "$1" || die "node $1 is down"
    [ "$1" != all ] || targets=$(node_names)
    fault_load
    [ "$8" -eq 0 ] || fault_hold "$3"
    for node in $targets; do
        has_port "$node" || continue
        for way in $2; do
            fault_write "$fault_rules" "$(fault_slot "$node" "$way")" "${@:4}"
        done
    done
}

# For each node that is there: fault_each FUNCTION, called with NODE DIR SLOT
fault_each() {
    local node way
    [ -e /run/fault.loaded ] || return 0
    for node in $(node_names); do
        has_port "$node" || continue
        for way in out in; do
            "$1" "$node" "$way" "$(fault_slot "$node" "$way")"
        done
    done
}

fault_clear() {
    fault_each fault_clear_one
}

fault_stats() {
    fault_each fault_show_one
}

fault_clear_one() {
    fault_write "$fault_rules" "$3" 0 0 0 0 0 0 0 0 0 0 0
    fault_write "$fault_counts" "$3" 0 0 0 0 0 0 0 0 0 0 0 0 0 0
}

# One line for each direction of each node: n1 out seen 10 dropped 1 ...
fault_show_one() {
    # shellcheck disable=SC2046 # words are what is wanted
    echo "$1 $2 $(bpftool map lookup pinned "$fault_counts" key $(le32 "$3") |
        sed -n 's/^ *"\([a-z]*\)": \([0-9]\+\),\?$/\1 \2/p' | grep -v '^key ' | paste -sd ' ')"
}
