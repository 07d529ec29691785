/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests launcher.c with what launchers were seen to tell.
 */
#include "mtl_ethmx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const variables[] = {"OMPI_MCA_orte_precondition_transports",
                                        "OMPI_MCA_orte_hnp_uri",
                                        "OMPI_MCA_orte_local_daemon_uri",
                                        "PMIX_NAMESPACE",
                                        "PMIX_SERVER_URI41",
                                        "PMIX_SERVER_URI4",
                                        "PMIX_SERVER_URI3",
                                        "PMIX_SERVER_URI21",
                                        "PMIX_SERVER_URI2"};

static int failed;

static void forget(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        unsetenv(variables[i]);
    }
}

static void expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "FAIL: %s\n", what);
        failed = 1;
    }
}

/* wanted: NULL for none. */
static void address_is(const char *wanted, const char *what)
{
    char address[64] = "";
    bool found = mtl_ethmx_launcher_address(address, sizeof(address));
    expect(found == (NULL != wanted) && (NULL == wanted || 0 == strcmp(address, wanted)), what);
    forget();
}

static void test_address(void)
{
    address_is(NULL, "an address without a launcher");
    setenv("OMPI_MCA_orte_hnp_uri", "1440808960.0;tcp://127.0.0.1,10.0.0.1,172.17.0.1:60527;tcp6://[fd00::2]:45021", 1);
    address_is("10.0.0.1", "mpirun of 4.1");
    setenv("OMPI_MCA_orte_local_daemon_uri", "1440808960.0;tcp://10.0.0.2:60527", 1);
    setenv("PMIX_SERVER_URI4", "prterun-n1-19@0.0;tcp4://10.77.0.1:33701", 1);
    address_is("10.0.0.2", "what ORTE says comes first");
    setenv("PMIX_SERVER_URI4", "prterun-n1-19@0.0;tcp4://10.77.0.1:33701", 1);
    setenv("PMIX_NAMESPACE", "prterun-n1-19@1", 1);
    address_is("10.77.0.1", "PRRTE's mpirun, on its own host");
    setenv("PMIX_SERVER_URI4", "prterun-n1-19@0.1;tcp4://127.0.0.1:34353", 1);
    setenv("PMIX_NAMESPACE", "prterun-n1-19@1", 1);
    address_is("n1", "PRRTE's mpirun, on another host");
    setenv("PMIX_NAMESPACE", "prte-node-7-b-1234@12", 1);
    address_is("node-7-b", "a host with dashes");
    setenv("OMPI_MCA_orte_hnp_uri", "1440808960.0;tcp://127.0.0.1:60527;tcp6://[fe80::2,fd00::2,fd00::3]:45021", 1);
    address_is("fd00::2", "mpirun of 4.1 with IPv6 only");
    setenv("OMPI_MCA_orte_hnp_uri", "1440808960.0;tcp6://[fd00::2", 1);
    address_is("fd00::2", "a contact of IPv6 that ends early");
    setenv("PMIX_SERVER_URI2", "slurm.pmix.17.0;tcp6://[::1]:34353", 1);
    setenv("PMIX_NAMESPACE", "slurm.pmix.17.0", 1);
    address_is(NULL, "srun tells no address");
    setenv("PMIX_NAMESPACE", "prterun-", 1);
    address_is(NULL, "a name without a host");
    setenv("PMIX_NAMESPACE", "prterun-@1", 1);
    address_is(NULL, "a name with an empty host");
    setenv("OMPI_MCA_orte_hnp_uri", "1440808960.0;tcp://", 1);
    address_is(NULL, "a contact that ends early");
}

static void key_of(const char *name, const char *transports, const char *credential, uint8_t key[16])
{
    if (NULL != name) {
        setenv("PMIX_NAMESPACE", name, 1);
    }
    if (NULL != transports) {
        setenv("OMPI_MCA_orte_precondition_transports", transports, 1);
    }
    mtl_ethmx_launcher_key(credential, key);
    forget();
}

static bool same(const uint8_t a[16], const uint8_t b[16])
{
    return 0 == memcmp(a, b, 16);
}

static void test_key(void)
{
    static const uint8_t none[16];
    const unsigned long long halves[2] = {0x0123456789abcdefull, 0xfedcba9876543210ull};
    const char *text = "0123456789abcdef-fedcba9876543210";
    uint8_t wanted[16], key[16], other[16];
    memcpy(wanted, halves, 16);

    key_of(NULL, NULL, NULL, key);
    expect(same(key, none), "without a launcher there is no key");
    key_of("prterun-n1-19@1", text, "0-1", key);
    expect(same(key, wanted), "mpirun of 4.1 tells the key");
    key_of("prterun-n1-19@1", NULL, text, key);
    expect(same(key, wanted), "PMIx tells the key");
    key_of("prterun-n1-19@1", NULL, "no key", key);
    expect(!same(key, none), "the job's name makes a key");
    key_of("prterun-n1-19@2", NULL, NULL, other);
    expect(same(key, other), "a spawned job has its parent's key");
    key_of("prterun-n1-20@1", NULL, NULL, other);
    expect(!same(key, other), "another mpirun has another key");
    key_of("slurm.pmix.17.0", text, NULL, key);
    expect(!same(key, wanted) && !same(key, none), "under srun the step's name makes a key");
    key_of("slurm.pmix.17.1", text, NULL, other);
    expect(!same(key, other), "another step has another key, whatever Open MPI made of the names");
}

int main(void)
{
    forget();
    test_address();
    test_key();
    return failed;
}
