/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Parameters and counters, both from ethmx's tables. Parameter eager_max of ethmx is the MCA parameter
 * mtl_ethmx_eager_max, and counter frames_sent the MPI_T variable mtl_ethmx_frames_sent.
 *
 * Who wins, strongest first: MCA parameters of the command line and of the environment (OMPI_MCA_*); ETHMX_*; MCA
 * parameter files; defaults. ompi_info shows the value in force and where it came from.
 */
#include "mtl_ethmx.h"

#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One for each row of ethmx's table. */
struct param {
    char *value; /* Open MPI's copy */
    int var;     /* Open MPI's index */
};

static struct param *params;
static char *config_error; /* why there is no configuration */

static bool params_from_environment(unsigned i, char *text, size_t text_len_bytes)
{
    const char *source;
    return NULL != mtl_ethmx.cfg && ETHMX_OK == ethmx_config_get(mtl_ethmx.cfg, i, text, text_len_bytes, &source) &&
           0 == strcmp(source, "environment");
}

/* Shows a value that came from ETHMX_* as such. */
static void params_show_environment(int var, const char *text)
{
    mca_base_var_set_flag(var, MCA_BASE_VAR_FLAG_SETTABLE, true);
    mca_base_var_set_value(var, text, strlen(text) + 1, MCA_BASE_VAR_SOURCE_ENV, NULL);
    mca_base_var_set_flag(var, MCA_BASE_VAR_FLAG_SETTABLE, false);
}

static int params_param_register(unsigned i, const struct ethmx_param_info *info)
{
    struct param *p = &params[i];
    char text[256], *help;
    if (asprintf(&help, "%s Values: %s. Default: %s.", info->help, info->range,
                 info->deflt[0] ? info->deflt : "empty") < 0) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    snprintf(text, sizeof(text), "%s", info->deflt);
    p->value = text; /* Open MPI replaces it by a copy */
    p->var = mca_base_component_var_register(&mca_mtl_ethmx_component.mtl_version, info->name, help,
                                             MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_4,
                                             MCA_BASE_VAR_SCOPE_READONLY, &p->value);
    free(help);
    if (p->var < 0) {
        p->value = NULL;
        return p->var;
    }
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
    mca_base_var_get_value(p->var, NULL, &source, NULL);
    if ((MCA_BASE_VAR_SOURCE_DEFAULT == source || MCA_BASE_VAR_SOURCE_FILE == source) &&
        params_from_environment(i, text, sizeof(text))) {
        params_show_environment(p->var, text);
    }
    return OMPI_SUCCESS;
}

static int params_counter_get(const struct mca_base_pvar_t *pvar, void *value, void *obj)
{
    (void)obj;
    *(unsigned long long *)value =
        NULL != mtl_ethmx.ep ? ethmx_counter_read(mtl_ethmx.ep, (unsigned)(uintptr_t)pvar->ctx) : 0;
    return OMPI_SUCCESS;
}

static void params_counter_register(unsigned i, const struct ethmx_counter_info *info)
{
    char *help;
    if (asprintf(&help, "%s (%s)", info->help, info->unit) < 0) {
        return;
    }
    (void)mca_base_component_pvar_register(&mca_mtl_ethmx_component.mtl_version, info->name, help, OPAL_INFO_LVL_4,
                                           info->level ? MCA_BASE_PVAR_CLASS_LEVEL : MCA_BASE_PVAR_CLASS_COUNTER,
                                           MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
                                           MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
                                           params_counter_get, NULL, NULL, (void *)(uintptr_t)i);
    free(help);
}

int mtl_ethmx_params_register(void)
{
    if (ETHMX_OK != ethmx_config_create(&mtl_ethmx.cfg)) {
        mtl_ethmx.cfg = NULL;
        config_error = strdup(ethmx_error_text());
    }
    unsigned count = 0;
    while (NULL != ethmx_param(count)) {
        count++;
    }
    params = calloc(count, sizeof(*params));
    if (NULL == params) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (unsigned i = 0; i < count; i++) {
        int rc = params_param_register(i, ethmx_param(i));
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    for (unsigned i = 0; NULL != ethmx_counter(i); i++) {
        params_counter_register(i, ethmx_counter(i));
    }
    return OMPI_SUCCESS;
}

bool mtl_ethmx_params_apply(const char **error_p)
{
    if (NULL == mtl_ethmx.cfg) {
        *error_p = NULL != config_error ? config_error : "out of memory";
        return false;
    }
    for (unsigned i = 0; NULL != ethmx_param(i); i++) {
        char text[256];
        const char *name = ethmx_param(i)->name;
        mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
        mca_base_var_get_value(params[i].var, NULL, &source, NULL);
        bool environment = params_from_environment(i, text, sizeof(text)) && 0 == strcmp(text, params[i].value);
        if (MCA_BASE_VAR_SOURCE_DEFAULT != source && !environment &&
            ETHMX_OK != ethmx_config_set(mtl_ethmx.cfg, name, params[i].value, "MCA")) {
            *error_p = ethmx_error_text();
            return false;
        }
        const char *from;
        if (ETHMX_OK == ethmx_config_get(mtl_ethmx.cfg, i, text, sizeof(text), &from) && 0 != strcmp(from, "default")) {
            MTL_ETHMX_VERBOSE(20, "%s is %s (%s)", name, text, from);
        }
    }
    return true;
}

void mtl_ethmx_params_release(void)
{
    ethmx_config_destroy(mtl_ethmx.cfg);
    mtl_ethmx.cfg = NULL;
    free(config_error);
    config_error = NULL;
}
