/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Linux 6.11 and later answer for one address (PROCMAP_QUERY). Before, the text must be read up to the address, which
 * takes long in a program of many mappings.
 */
#include "mem/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TEXT_BYTES 4096
#define LINE_BYTES 512 /* more of a line than this, which is of its path, is not looked at */

/* Names of the kernel for private anonymous huge pages, which it keeps in a file that nobody else can open. */
#define HUGE_NAME "/anon_hugepage"

/* ---- One address, asked for (struct procmap_query of linux/fs.h) ---- */

struct query {
    uint64_t size, flags, addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, name_size, build_id_size;
    uint64_t name_addr, build_id_addr;
};

#define QUERY        _IOWR('f', 17, struct query)
#define QUERY_SHARED 8u

int emx_mapping_open(char *why, size_t why_len_bytes)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        snprintf(why, why_len_bytes, "/proc/self/maps: %s", strerror(errno));
    return fd;
}

static bool mapping_is_anonymous(bool shared, uint64_t inode, const char *name)
{
    return !shared && (!inode || !strncmp(name, HUGE_NAME, strlen(HUGE_NAME)));
}

/* 1: found, 0: nothing there, -1: this kernel cannot. */
static int mapping_ask(int fd, uintptr_t addr, struct emx_mapping *m_p)
{
    char name[64] = "";
    struct query q = {.size = sizeof(q), .addr = addr};

    if (ioctl(fd, QUERY, &q))
        return errno == ENOENT ? 0 : -1;
    if (q.inode) { /* only then the name matters */
        struct query n = {.size = sizeof(n), .addr = addr, .name_size = sizeof(name), .name_addr = (uintptr_t)name};

        if (ioctl(fd, QUERY, &n)) /* a name too long is another name */
            name[0] = 0;
    }
    *m_p = (struct emx_mapping){.base = (uintptr_t)q.vma_start,
                                .end = (uintptr_t)q.vma_end,
                                .anonymous = mapping_is_anonymous(q.vma_flags & QUERY_SHARED, q.inode, name)};
    return 1;
}

/* ---- The text ---- */

static bool mapping_parse(const char *line, struct emx_mapping *m_p)
{
    unsigned long base, end, inode;
    char perms[8];
    int name_at = 0;

    if (sscanf(line, "%lx-%lx %7s %*x %*x:%*x %lu %n", &base, &end, perms, &inode, &name_at) < 4 || !name_at)
        return false;
    *m_p = (struct emx_mapping){
        .base = base, .end = end, .anonymous = mapping_is_anonymous(perms[3] == 's', inode, line + name_at)};
    return true;
}

/* A line of the file that is read block by block. */
struct line {
    char text[LINE_BYTES];
    size_t bytes;
};

/* Takes text up to and with a newline. true: the line is whole. */
static bool mapping_gather(struct line *l, const char **text, const char *end)
{
    while (*text < end) {
        char c = *(*text)++;

        if (c == '\n') {
            l->text[l->bytes] = 0;
            l->bytes = 0;
            return true;
        }
        if (l->bytes < sizeof(l->text) - 1)
            l->text[l->bytes++] = c;
    }
    return false;
}

bool emx_mapping_find_in_text(int fd, uintptr_t addr, struct emx_mapping *m_p)
{
    struct line l = {.bytes = 0};
    char text[TEXT_BYTES];
    off_t offset = 0;
    ssize_t bytes;

    while ((bytes = pread(fd, text, sizeof(text), offset)) > 0) {
        const char *at = text;

        while (mapping_gather(&l, &at, text + bytes)) {
            struct emx_mapping m;

            if (!mapping_parse(l.text, &m) || addr >= m.end)
                continue;
            *m_p = m;
            return addr >= m.base;
        }
        offset += bytes;
    }
    return false;
}

bool emx_mapping_find(int fd, uintptr_t addr, struct emx_mapping *m_p)
{
    int found = mapping_ask(fd, addr, m_p);

    return found < 0 ? emx_mapping_find_in_text(fd, addr, m_p) : found;
}
