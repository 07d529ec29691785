# SPDX-License-Identifier: BSD-3-Clause
# From medians: an array of objects.
BEGIN {
    FS = "\t"
    unit["latency"] = "us"
    unit["stream"] = unit["stream_single"] = "MB/s"
    unit["rate"] = "messages/s"
    unit["receive"] = "ns"
    unit["unexpected"] = "ns"
    unit["peermem"] = "bytes"
    print "["
}
{
    printf "%s  {\"mtu\": %d, \"loss_percent\": %g, \"transport\": \"%s\", \"kind\": \"%s\", \"size\": %d, " \
           "\"unit\": \"%s\", \"median\": %g, \"least\": %g, \"most\": %g, \"rounds\": %d}",
           (NR > 1 ? ",\n" : ""), $1, $2, $3, $4, $5, unit[$4], $6, $7, $8, $9
}
END { print "\n]" }
