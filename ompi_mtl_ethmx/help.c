/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Help: texts of help-mtl-ethmx.txt, once per host and job.
 *
 * opal_show_help() would hand a text to mpirun, which shows it once per job. But the mpirun of 4.1.4 loses about one in
 * four of them ("ORTE_ERROR_LOG: Data unpack ... show_help.c", when the process is on mpirun's own host), and a process
 * that then gives up leaves no reason behind. So the text goes straight to stderr, from the first process of each host
 * that gets here: the one that can make a mark in the job's session directory.
 */
#include "mtl_ethmx.h"

#include "opal/util/show_help.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELP_FILE "help-mtl-ethmx.txt"

/* The help file lies beside the component. */
void mtl_ethmx_help_dir_add(void)
{
    Dl_info info;
    char path[PATH_MAX];
    if (0 == dladdr(&mca_mtl_ethmx_component, &info) || NULL == realpath(info.dli_fname, path)) {
        return;
    }
    *strrchr(path, '/') = '\0';
    opal_show_help_add_dir(path);
}

static bool first_on_host(const char *topic)
{
    char *path;
    if (NULL == ompi_process_info.job_session_dir ||
        asprintf(&path, "%s/mtl-ethmx %s", ompi_process_info.job_session_dir, topic) < 0) {
        return true;
    }
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    bool first = fd >= 0 || EEXIST != errno;
    if (fd >= 0) {
        close(fd);
    }
    free(path);
    return first;
}

bool mtl_ethmx_help(const char *topic, int framed, ...)
{
    if (!first_on_host(topic)) {
        return false;
    }
    va_list args;
    va_start(args, framed);
    char *text = opal_show_help_vstring(HELP_FILE, topic, framed, args);
    va_end(args);
    if (NULL != text) {
        fputs(text, stderr);
        fflush(stderr);
    }
    free(text);
    return true;
}
