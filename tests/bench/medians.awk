# SPDX-License-Identifier: BSD-3-Clause
# From figures sorted by all but the round, then by value: mtu, loss, transport, kind, size, median, least, most, count.
function flush() {
    if (n == 0)
        return
    median = n % 2 ? value[(n + 1) / 2] : (value[n / 2] + value[n / 2 + 1]) / 2
    print key, median, value[1], value[n], n
    n = 0
}
BEGIN { FS = OFS = "\t" }
{
    this = $1 OFS $2 OFS $3 OFS $5 OFS $6
    if (this != key)
        flush()
    key = this
    value[++n] = $7
}
END { flush() }
