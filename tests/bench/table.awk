# SPDX-License-Identifier: BSD-3-Clause
# From medians: the figures that have a bar, then latency, bandwidth and rate of all transports side by side.
function get(mtu, loss, transport, kind, size) {
    return median[mtu, loss, transport, kind, size]
}

# Sizes are seen in ascending order within a transport; list holds them once, in order.
function list_add(list, count, x,    i) {
    for (i = 1; i <= count; i++)
        if (list[i] == x)
            return count
    list[count + 1] = x
    return count + 1
}

# Of the two TCP rivals: the lower latency, the higher bandwidth; or what there is.
function better(mtu, kind, size,    a, b) {
    a = get(mtu, 0, "tcp", kind, size)
    b = get(mtu, 0, "ucx", kind, size)
    if (a == "" || b == "") {
        rival = a == "" ? "UCX/TCP" : "ob1/TCP"
        return a == "" ? b : a
    }
    rival = (kind == "latency") == (a < b) ? "ob1/TCP" : "UCX/TCP"
    return rival == "ob1/TCP" ? a : b
}

# One line: figure, value, other value, ratio (or value), bar, verdict.
function line(what, ours, theirs, ratio, bar) {
    if (ours == "" || theirs == "") {
        printf "  %-58s %-42s  not measured\n", what, bar
        return
    }
    printf "  %-58s %-42s  %s (%s beside %s)\n", what, bar, ratio, ours, theirs
}

function verdict(met) {
    return met ? "met" : "NOT MET"
}

function latency_line(wire, times,    a, b, r) {
    a = get(1500, 0, "ethmx:" wire, "latency", 8)
    b = better(1500, "latency", 8)
    r = a && b ? b / a : 0
    line("half round trip of 8 bytes, " wire " wire, MTU 1500",
         a == "" ? "" : sprintf("%.2f us", a), b == "" ? "" : sprintf("%s %.2f us", rival, b),
         sprintf("%.2f times lower: %s", r, verdict(r >= times)), "at least " times " times lower than TCP")
}

function bandwidth_line(    a, b, r) {
    a = get(9000, 0, "ethmx:packet", "latency", 4194304)
    b = better(9000, "latency", 4194304)
    r = a && b ? b / a : 0
    line("bandwidth at 4 MiB there and back, packet wire, MTU 9000",
         a == "" ? "" : sprintf("%.0f MB/s", 4194304 / a), b == "" ? "" : sprintf("%s %.0f MB/s", rival, 4194304 / b),
         sprintf("%.2f times: %s", r, verdict(r >= 0.8)), "at least 0.8 times TCP's")
}

function loss_line(wire,    a, b, r) {
    a = get(1500, 1, "ethmx:" wire, "stream_single", 4194304)
    b = get(1500, 0, "ethmx:" wire, "stream_single", 4194304)
    r = a && b ? a / b : 0
    line("stream of 4 MiB, 1% of frames lost, " wire " wire, no offload",
         a == "" ? "" : sprintf("%.0f MB/s", a), b == "" ? "" : sprintf("%.0f MB/s without loss", b),
         sprintf("%.2f times: %s", r, verdict(r >= 1 / 3)), "at least a third of its own without loss")
}

function unexpected_line(kind, what,    a, b, r) {
    a = get(1500, 0, "ethmx:packet", kind, 10000)
    b = get(1500, 0, "ethmx:packet", kind, 100)
    r = a && b ? a / b : 0
    line(what, a == "" ? "" : sprintf("%.0f ns each", a), b == "" ? "" : sprintf("%.0f ns each of 100", b),
         sprintf("%.2f times: %s", r, verdict(r > 0 && r <= 1.5)), "at most 1.5 times the cost with 100")
}

function memory_line(    a) {
    a = get(1500, 0, "ethmx", "peermem", 1)
    line("memory of the core for an idle peer", a == "" ? "" : sprintf("%d bytes", a), "2048",
         verdict(a < 2048), "under 2 KiB")
}

# One table: a row a size, a column a transport.
function side_by_side(mtu, kind, title,    i, j, v, any) {
    any = 0
    for (i = 1; i <= transports; i++)
        for (j = 1; j <= sizes; j++)
            if (get(mtu, 0, transport[i], kind, size[j]) != "")
                any = 1
    if (!any)
        return
    printf "\n%s, MTU %d\n%10s", title, mtu, "bytes"
    for (i = 1; i <= transports; i++)
        printf "%14s", label[transport[i]] ? label[transport[i]] : transport[i]
    print ""
    for (j = 1; j <= sizes; j++) {
        any = 0
        for (i = 1; i <= transports; i++)
            if (get(mtu, 0, transport[i], kind, size[j]) != "")
                any = 1
        if (!any)
            continue
        printf "%10d", size[j]
        for (i = 1; i <= transports; i++) {
            v = get(mtu, 0, transport[i], kind, size[j])
            if (v == "")
                printf "%14s", "-"
            else
                printf kind == "latency" && v < 1000 ? "%14.2f" : "%14.0f", v
        }
        print ""
    }
}

function size_sort(    i, j, x) {
    for (i = 2; i <= sizes; i++)
        for (j = i; j > 1 && size[j - 1] + 0 > size[j] + 0; j--) {
            x = size[j]
            size[j] = size[j - 1]
            size[j - 1] = x
        }
}

BEGIN {
    FS = "\t"
    label["tcp"] = "ob1/TCP"
    label["ucx"] = "UCX/TCP"
    label["ofi"] = "ofi/tcp"
    label["ethmx:packet"] = "ethmx packet"
    label["ethmx:udp"] = "ethmx udp"
}
{
    median[$1, $2, $3, $4, $5] = $6
    if ($2 == 0 && ($4 == "latency" || $4 == "stream" || $4 == "rate")) {
        transports = list_add(transport, transports, $3)
        mtus = list_add(mtu_of, mtus, $1)
        sizes = list_add(size, sizes, $5)
    }
}
END {
    size_sort()
    print "What it must show:"
    latency_line("packet", 2.2)
    latency_line("udp", 1.3)
    bandwidth_line()
    loss_line("packet")
    loss_line("udp")
    unexpected_line("receive", "10000 unexpected messages: receiving in reverse")
    unexpected_line("unexpected", "10000 unexpected messages: sending, keeping, receiving")
    memory_line()
    for (m = 1; m <= mtus; m++) {
        side_by_side(mtu_of[m], "latency", "Half round trip, us")
        side_by_side(mtu_of[m], "stream", "Stream of 16 in flight, MB/s")
        side_by_side(mtu_of[m], "rate", "Messages a second, 64 in flight")
    }
}
