/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the launcher tells of itself and the job: a key, and where it is reached. mpirun of Open MPI 4.1 tells both in
 * variables of its own (orte_*). mpirun of 5.0 and 6.0 is PRRTE's: it tells its address in PMIx's variables, and no
 * key. Slurm's srun tells neither. Then Open MPI 4.1 sets the variable of the key itself, to a hash of 31 bits of the
 * job's name, which two of the many steps on a cluster may have in common.
 */
#include "mtl_ethmx.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Key -------------------------------------------------------------------------------------------------- */

static bool launcher_key_parse(const char *text, uint8_t key[16])
{
    unsigned long long half[2];
    if (NULL == text || 2 != sscanf(text, "%16llx-%16llx", &half[0], &half[1])) {
        return false;
    }
    memcpy(key, half, 16);
    return true;
}

/* Half of a key: a hash (FNV-1a) of a name, another one for each seed. */
static uint64_t launcher_name_hash(const char *name, size_t len, uint64_t seed)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ seed;
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3ull;
    }
    return hash;
}

/* From the job's name, such as "prterun-n1-4711@1", without what differs in the jobs that this one spawns. */
static void launcher_key_from_name(const char *name, uint8_t key[16])
{
    size_t len = strcspn(name, "@");
    const uint64_t half[2] = {launcher_name_hash(name, len, 0), launcher_name_hash(name, len, 0x9e3779b97f4a7c15ull)};
    memcpy(key, half, 16);
}

/* Whether srun has started this process: then Open MPI made the key in its variable from the step's name. */
static bool launcher_is_srun(const char *name)
{
    static const char srun[] = "slurm.pmix.";
    return NULL != name && 0 == strncmp(name, srun, strlen(srun));
}

void mtl_ethmx_launcher_key(const char *credential, uint8_t key[16])
{
    const char *name = getenv("PMIX_NAMESPACE");
    const char *told = launcher_is_srun(name) ? NULL : getenv("OMPI_MCA_orte_precondition_transports");
    memset(key, 0, 16);
    if (!launcher_key_parse(told, key) && !launcher_key_parse(credential, key) && NULL != name && '\0' != name[0]) {
        launcher_key_from_name(name, key);
    }
}

/* ---- Address ---------------------------------------------------------------------------------------------- */

/* Whether other hosts reach the address. */
static bool launcher_is_address(const char *address)
{
    struct in_addr in;
    struct in6_addr in6;
    if (1 == inet_pton(AF_INET, address, &in)) {
        return 127 != ntohl(in.s_addr) >> 24;
    }
    return 1 == inet_pton(AF_INET6, address, &in6) && !IN6_IS_ADDR_LOOPBACK(&in6) && !IN6_IS_ADDR_LINKLOCAL(&in6);
}

/* The first such address in the list behind the scheme. IPv6 is in brackets. */
static bool launcher_scheme_address(const char *uri, const char *scheme, char *address, size_t room_bytes)
{
    const char *at = strstr(uri, scheme), *ends = ",:;";
    if (NULL == at) {
        return false;
    }
    at += strlen(scheme);
    if ('[' == *at) {
        ends = ",]";
        at++;
    }
    for (;;) {
        size_t len = strcspn(at, ends);
        snprintf(address, room_bytes, "%.*s", (int)len, at);
        if (launcher_is_address(address)) {
            return true;
        }
        if (',' != at[len]) {
            return false;
        }
        at += len + 1;
    }
}

/* The first address in a contact that is not loopback, such as 10.0.0.1 in ORTE's
 * "1440808960.0;tcp://10.0.0.1,172.17.0.1:60527;tcp6://[fd00::2]:45021" or PMIx's
 * "prterun-n1-4711@0.0;tcp4://10.0.0.1:33701"; of IPv6 only if there is none of IPv4. PMIx of a daemon may tell
 * loopback only. */
static bool launcher_contact_address(const char *uri, char *address, size_t room_bytes)
{
    return NULL != uri && (launcher_scheme_address(uri, "tcp://", address, room_bytes) ||
                           launcher_scheme_address(uri, "tcp4://", address, room_bytes) ||
                           launcher_scheme_address(uri, "tcp6://", address, room_bytes));
}

/* The host in a job's name of PRRTE: n1 in "prterun-n1-4711@1", where 4711 is the launcher's process. */
static bool launcher_name_host(char *host, size_t room_bytes)
{
    static const char *const launchers[] = {"prterun-", "prte-"};
    const char *name = getenv("PMIX_NAMESPACE");
    for (size_t i = 0; NULL != name && i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        size_t skip = strlen(launchers[i]), end = strcspn(name, "@");
        if (0 != strncmp(name, launchers[i], skip)) {
            continue;
        }
        while (end > skip && '-' != name[end]) {
            end--;
        }
        if (end == skip || end - skip >= room_bytes) {
            return false;
        }
        snprintf(host, room_bytes, "%.*s", (int)(end - skip), name + skip);
        return true;
    }
    return false;
}

/* PMIx's server tells its contact in variables by version, PMIX_SERVER_URI41 and others. */
static bool launcher_server_address(char *address, size_t room_bytes)
{
    const char *name = "PMIX_SERVER_URI";
    for (char **variable = environ; NULL != *variable; variable++) {
        const char *value = strchr(*variable, '=');
        if (NULL != value && 0 == strncmp(*variable, name, strlen(name)) &&
            launcher_contact_address(value, address, room_bytes)) {
            return true;
        }
    }
    return false;
}

bool mtl_ethmx_launcher_address(char *address, size_t room_bytes)
{
    return launcher_contact_address(getenv("OMPI_MCA_orte_hnp_uri"), address, room_bytes) ||
           launcher_contact_address(getenv("OMPI_MCA_orte_local_daemon_uri"), address, room_bytes) ||
           launcher_server_address(address, room_bytes) || launcher_name_host(address, room_bytes);
}
