/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The program. It is short, so it is written as BPF instructions: the build needs no compiler for BPF, and EtherType
 * and queues are constants in it. In C it would be:
 *
 *     if (frame shorter than 22 || its EtherType != ours) return XDP_PASS;
 *     index = ids[dst_id of the frame];
 *     if (none) return XDP_PASS;
 *     if (receive queue >= queues) { passed++; return XDP_PASS; }
 *     return redirect to socks[index + receive queue], or XDP_PASS when that socket is gone;
 *
 * So the kernel gets all frames that no endpoint waits for.
 *
 * It is attached by a BPF link, not by libxdp's dispatcher. A link ends with its last descriptor, even if its owner is
 * killed. The dispatcher stays on the interface and in the BPF file system until it is detached.
 */
#include "wire/xdp/xdp_prog.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <unistd.h>

#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

#define TYPE_OFFSET   12             /* of the EtherType */
#define DST_ID_OFFSET (ETH_HLEN + 4) /* of the receiving endpoint's id */
#define NEEDED_BYTES  (DST_ID_OFFSET + 4)

/* One instruction. */
#define INSN(op, dst, src, offset, value)                                                                              \
    ((struct bpf_insn){.code = (op), .dst_reg = (dst), .src_reg = (src), .off = (offset), .imm = (value)})
#define LOAD(size, dst, src, offset)  INSN(BPF_LDX | BPF_MEM | (size), dst, src, offset, 0)
#define STORE(size, dst, offset, src) INSN(BPF_STX | BPF_MEM | (size), dst, src, offset, 0)
#define SET(dst, value)               INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define COPY(dst, src)                INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define ADD(dst, value)               INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value)
#define ADD_REG(dst, src)             INSN(BPF_ALU64 | BPF_ADD | BPF_X, dst, src, 0, 0)
#define JUMP_IF(op, dst, value, skip) INSN(BPF_JMP | (op) | BPF_K, dst, 0, skip, value)
#define JUMP_REG(op, dst, src, skip)  INSN(BPF_JMP | (op) | BPF_X, dst, src, skip, 0)
#define CALL(function)                INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define MAP(dst, fd)                  INSN(BPF_LD | BPF_DW | BPF_IMM, dst, BPF_PSEUDO_MAP_FD, 0, fd), INSN(0, 0, 0, 0, 0)
#define EXIT                          INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* Jump targets. The number of each instruction is in its line. */
#define PASSED          25
#define PASS            34
#define TO(here, there) ((there) - (here)-1)

static int xdp_prog_load(const struct emx_xdp_prog *p, const struct emx_xdp_attach *a)
{
    enum { R0, R1, R2, R3, R4, R5, R6, R10 = 10 };
    /* clang-format off */
    const struct bpf_insn code[] = {
        /*  0 */ COPY(R6, R1),
        /*  1 */ LOAD(BPF_W, R2, R1, offsetof(struct xdp_md, data)),
        /*  2 */ LOAD(BPF_W, R3, R1, offsetof(struct xdp_md, data_end)),
        /*  3 */ COPY(R4, R2),
        /*  4 */ ADD(R4, NEEDED_BYTES),
        /*  5 */ JUMP_REG(BPF_JGT, R4, R3, TO(5, PASS)),
        /*  6 */ LOAD(BPF_H, R5, R2, TYPE_OFFSET),
        /*  7 */ JUMP_IF(BPF_JNE, R5, htons(a->ethertype), TO(7, PASS)),
        /*  8 */ LOAD(BPF_W, R5, R2, DST_ID_OFFSET),
        /*  9 */ STORE(BPF_W, R10, -4, R5),
        /* 10 */ MAP(R1, p->ids_fd),
        /* 12 */ COPY(R2, R10),
        /* 13 */ ADD(R2, -4),
        /* 14 */ CALL(BPF_FUNC_map_lookup_elem),
        /* 15 */ JUMP_IF(BPF_JEQ, R0, 0, TO(15, PASS)),
        /* 16 */ LOAD(BPF_W, R2, R0, 0),
        /* 17 */ LOAD(BPF_W, R3, R6, offsetof(struct xdp_md, rx_queue_index)),
        /* 18 */ JUMP_IF(BPF_JGE, R3, (int)a->queues, TO(18, PASSED)),
        /* 19 */ ADD_REG(R2, R3),
        /* 20 */ MAP(R1, p->socks_fd),
        /* 22 */ SET(R3, XDP_PASS),
        /* 23 */ CALL(BPF_FUNC_redirect_map),
        /* 24 */ EXIT,
        /* 25 */ INSN(BPF_ST | BPF_MEM | BPF_W, R10, 0, -4, 0), /* PASSED */
        /* 26 */ MAP(R1, p->passed_fd),
        /* 28 */ COPY(R2, R10),
        /* 29 */ ADD(R2, -4),
        /* 30 */ CALL(BPF_FUNC_map_lookup_elem),
        /* 31 */ JUMP_IF(BPF_JEQ, R0, 0, TO(31, PASS)),
        /* 32 */ SET(R1, 1),
        /* 33 */ INSN(BPF_STX | BPF_XADD | BPF_DW, R0, R1, 0, 0),
        /* 34 */ SET(R0, XDP_PASS), /* PASS */
        /* 35 */ EXIT,
    };
    /* clang-format on */
    struct bpf_prog_load_opts opts = {
        .sz = sizeof(opts), .prog_flags = a->frags ? BPF_F_XDP_HAS_FRAGS : 0, .expected_attach_type = BPF_XDP};

    return bpf_prog_load(BPF_PROG_TYPE_XDP, "ethmx", "Dual BSD/GPL", code, sizeof(code) / sizeof(code[0]), &opts);
}

int emx_xdp_prog_make(struct emx_xdp_prog *p, const struct emx_xdp_attach *a)
{
    const struct bpf_map_create_opts mappable = {.sz = sizeof(mappable), .map_flags = BPF_F_MMAPABLE};

    *p = (struct emx_xdp_prog){.ids_fd = -1, .socks_fd = -1, .passed_fd = -1, .link_fd = -1};
    p->ids_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "ethmx_ids", 4, 4, a->endpoints, NULL);
    if (p->ids_fd >= 0)
        p->socks_fd = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "ethmx_socks", 4, 4, a->endpoints * a->queues, NULL);
    if (p->socks_fd >= 0)
        p->passed_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ethmx_passed", 4, 8, 1, &mappable);
    if (p->passed_fd >= 0)
        return 0;
    emx_xdp_prog_close(p);
    return -1;
}

int emx_xdp_prog_attach(struct emx_xdp_prog *p, const struct emx_xdp_attach *a)
{
    const struct bpf_link_create_opts opts = {.sz = sizeof(opts),
                                              .flags = a->native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE};
    int fd = xdp_prog_load(p, a), err;

    if (fd < 0)
        return -1;
    p->link_fd = bpf_link_create(fd, (int)a->ifindex, BPF_XDP, &opts);
    err = errno;
    close(fd); /* the link holds the program */
    errno = err;
    return p->link_fd < 0 ? -1 : 0;
}

void emx_xdp_prog_close(struct emx_xdp_prog *p)
{
    int *const fd[] = {&p->link_fd, &p->ids_fd, &p->socks_fd, &p->passed_fd};
    int err = errno;

    for (unsigned i = 0; i < sizeof(fd) / sizeof(fd[0]); i++) {
        if (*fd[i] >= 0)
            close(*fd[i]);
        *fd[i] = -1;
    }
    errno = err;
}
