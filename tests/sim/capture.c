/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture.h"

#include <stdio.h>
#include <stdlib.h>

#include "link.h"

#define PCAP_MAGIC_NS 0xa1b23c4du
#define LINK_ETHERNET 1
#define HEAD_BYTES    14

static FILE *capture_open(void)
{
    const uint32_t head[] = {PCAP_MAGIC_NS, 2 | 4 << 16, 0, 0, 1 << 18, LINK_ETHERNET};
    const char *path = getenv("EMX_PCAP");
    FILE *file = path && *path ? fopen(path, "wb") : NULL;

    if (path && *path && (!file || fwrite(head, sizeof(head), 1, file) != 1)) {
        perror(path);
        exit(2);
    }
    return file;
}

void sim_capture(const struct sim_frame *f, uint64_t at_ns)
{
    static FILE *file;
    static bool is_open;
    const uint32_t len_bytes = f->len_bytes + HEAD_BYTES;
    const uint32_t record[] = {(uint32_t)(at_ns / 1000000000), (uint32_t)(at_ns % 1000000000), len_bytes, len_bytes};
    const uint8_t head[HEAD_BYTES] = {2, 0, 0, 0, f->wire, f->dst, 2, 0, 0, 0, f->wire, f->src, 0x88, 0xb5};

    if (!is_open) {
        file = capture_open();
        is_open = true;
    }
    if (!file)
        return;
    if (fwrite(record, sizeof(record), 1, file) != 1 || fwrite(head, sizeof(head), 1, file) != 1 ||
        fwrite(f->data, 1, f->len_bytes, file) != f->len_bytes) {
        perror("EMX_PCAP");
        exit(2);
    }
}
