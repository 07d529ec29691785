/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A made-up /sys for unit tests, in a folder of its own. The file that includes it defines _GNU_SOURCE.
 */
#ifndef EMX_TESTS_UNIT_SYSFS_H
#define EMX_TESTS_UNIT_SYSFS_H

#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char sysfs[] = "/tmp/ethmx-test-sys-XXXXXX";

/* Makes the folder parent/name; parent "": it is at the top. */
static inline void sysfs_folder(const char *parent, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s/%s", sysfs, parent, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static inline void sysfs_file(const char *folder, const char *file, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s/%s", sysfs, folder, file);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
}

static inline void sysfs_make(void)
{
    assert_non_null(mkdtemp(sysfs));
}

static inline int sysfs_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Removes all of it: a teardown of cmocka. */
static inline int sysfs_remove(void **state)
{
    (void)state;
    return nftw(sysfs, sysfs_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
