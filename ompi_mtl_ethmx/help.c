/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Help: texts of help-mtl-ethmx.txt, once per host and job.
 *
 * opal_show_help() would hand a text to mpirun, which shows it once per job. But the mpirun of 4.1.4 loses about one in
 * four of them ("ORTE_ERROR_LOG: Data unpack ... show_help.c", when the process is on mpirun's own host), and a process
 * that then gives up leaves no reason behind. So the text goes straight to stderr, from the first process of each host
 * that gets here: the one that can make a mark in the job's session directory. And Open MPI 6.0 shows texts only that
 * were compiled into it, so the file is read here.
 */
#include "mtl_ethmx.h"

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
#define FRAME     "--------------------------------------------------------------------------\n"

/* The help file lies beside the component. */
static FILE *help_open(void)
{
    Dl_info info;
    char here[PATH_MAX], path[PATH_MAX + sizeof(HELP_FILE)];
    if (0 == dladdr(&mca_mtl_ethmx_component, &info) || NULL == realpath(info.dli_fname, here)) {
        return NULL;
    }
    *strrchr(here, '/') = '\0';
    snprintf(path, sizeof(path), "%s/" HELP_FILE, here);
    return fopen(path, "re");
}

/* A topic's text: the lines behind "[topic]", up to the next topic, without comments. NULL: there is none. */
static char *help_read(const char *topic)
{
    FILE *file = help_open();
    char *line = NULL, *text = NULL;
    size_t room_bytes = 0, text_bytes = 0, topic_len = strlen(topic);
    bool inside = false;
    while (NULL != file && getline(&line, &room_bytes, file) > 0) {
        if ('[' == line[0]) {
            inside = 0 == strncmp(line + 1, topic, topic_len) && 0 == strcmp(line + 1 + topic_len, "]\n");
        } else if (inside && '#' != line[0]) {
            char *longer = realloc(text, text_bytes + strlen(line) + 1);
            if (NULL == longer) {
                break;
            }
            text = longer;
            text_bytes += (size_t)sprintf(text + text_bytes, "%s", line);
        }
    }
    free(line);
    if (NULL != file) {
        fclose(file);
    }
    return text;
}

static bool help_first_on_host(const char *topic)
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
    if (!help_first_on_host(topic)) {
        return false;
    }
    char *text = help_read(topic), *told = NULL;
    va_list args;
    va_start(args, framed);
    if (NULL == text || vasprintf(&told, text, args) < 0) {
        told = NULL;
    }
    va_end(args);
    if (NULL != told) {
        fprintf(stderr, "%s%s%s", framed ? FRAME : "", told, framed ? FRAME : "");
    } else {
        fprintf(stderr, "mtl/ethmx: %s (" HELP_FILE " is not beside the component)\n", topic);
    }
    fflush(stderr);
    free(told);
    free(text);
    return true;
}
