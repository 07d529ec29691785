/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PREFIX         "ETHMX_"
#define NAME_MAX_BYTES 64  /* longer unknown names are looked at only so far */
#define MTU_MIN        576 /* least datagram every IPv4 host takes (RFC 791) */
#define TOS_ECN_BITS   3   /* of the type of service (RFC 3168); a DSCP is above them */
#define TOS_DSCP_SHIFT 2

struct row {
    const char *name, *deflt, *range;
    enum emx_param_type type;
    uint64_t min, max;
    size_t offset;
};

#define ROW(type, name, deflt, min, max, range, help)                                                                  \
    {#name, deflt, range, EMX_PARAM_##type, min, max, offsetof(struct ethmx_config, p_##name)},
static const struct row rows[EMX_P_COUNT] = {EMX_PARAMS(ROW)};

struct unit {
    const char *name;
    uint64_t factor;
};

/* From large to small: the first that divides a value is the one it is written in. */
static const struct unit sizes[] = {{"t", 1ull << 40}, {"g", 1ull << 30}, {"m", 1ull << 20}, {"k", 1ull << 10}};
static const struct unit times[] = {{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};

/* Differentiated services code points by their names (RFC 2474, 2597, 3246, 5865, 8622). */
static const struct {
    const char *name;
    uint8_t dscp;
} config_dscps[] = {
    {"cs0", 0},   {"le", 1},    {"cs1", 8},  {"af11", 10}, {"af12", 12}, {"af13", 14}, {"cs2", 16}, {"af21", 18},
    {"af22", 20}, {"af23", 22}, {"cs3", 24}, {"af31", 26}, {"af32", 28}, {"af33", 30}, {"cs4", 32}, {"af41", 34},
    {"af42", 36}, {"af43", 38}, {"cs5", 40}, {"va", 44},   {"ef", 46},   {"cs6", 48},  {"cs7", 56},
};

/* ---- Texts to values. Each returns NULL, or what is wrong with the text; the value is set only on NULL. ---- */

static const char *config_parse_bool(const char *text, bool *value_p)
{
    static const char *const words[][2] = {{"no", "yes"}, {"off", "on"}, {"false", "true"}, {"0", "1"}};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (unsigned v = 0; v < 2; v++)
            if (!strcasecmp(text, words[i][v])) {
                *value_p = v;
                return NULL;
            }
    return "is neither yes nor no";
}

/* Digits at *text_p, decimal or after 0x; moves *text_p behind them. strtoull() would take signs and spaces, and
 * wrap. */
static const char *config_parse_digits(const char **text_p, uint64_t *value_p)
{
    const char *p = *text_p;
    unsigned base = 10;
    uint64_t value = 0;

    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && isxdigit((unsigned char)p[2])) {
        base = 16;
        p += 2;
    }
    if (!isdigit((unsigned char)*p) && base == 10)
        return "is not a number";
    for (; base == 16 ? isxdigit((unsigned char)*p) : isdigit((unsigned char)*p); p++) {
        unsigned digit = isdigit((unsigned char)*p) ? *p - '0' : tolower((unsigned char)*p) - 'a' + 10;

        if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value))
            return "is too large";
    }
    *text_p = p;
    *value_p = value;
    return NULL;
}

static const char *config_parse_uint(const char *text, uint64_t *value_p)
{
    uint64_t value;
    const char *bad = config_parse_digits(&text, &value);

    if (bad)
        return bad;
    if (*text)
        return "has something after the number";
    *value_p = value;
    return NULL;
}

/* A number and one of the units; without unit the number stands for itself, if bare. 0 needs no unit. */
static const char *config_parse_united(const char *text, const struct unit *units, unsigned count, bool bare,
                                       const char *bad_unit, uint64_t *value_p)
{
    uint64_t value;
    const char *bad = config_parse_digits(&text, &value);

    if (bad)
        return bad;
    if (!*text && (bare || !value)) {
        *value_p = value;
        return NULL;
    }
    for (unsigned i = 0; i < count; i++)
        if (!strcasecmp(text, units[i].name)) {
            if (__builtin_mul_overflow(value, units[i].factor, &value))
                return "is too large";
            *value_p = value;
            return NULL;
        }
    return bad_unit;
}

static const char *config_parse_size(const char *text, uint64_t *value_p)
{
    return config_parse_united(text, sizes, sizeof(sizes) / sizeof(sizes[0]), true,
                               "needs k, m, g, t or nothing as its unit", value_p);
}

static const char *config_parse_time(const char *text, uint64_t *value_p)
{
    return config_parse_united(text, times, sizeof(times) / sizeof(times[0]), false,
                               "needs ns, us, ms or s as its unit", value_p);
}

static const char *config_parse_tos(const char *text, uint64_t *value_p)
{
    uint64_t value;
    const char *bad;

    for (unsigned i = 0; i < sizeof(config_dscps) / sizeof(config_dscps[0]); i++)
        if (!strcasecmp(text, config_dscps[i].name)) {
            *value_p = (uint64_t)config_dscps[i].dscp << TOS_DSCP_SHIFT;
            return NULL;
        }
    if (!isdigit((unsigned char)*text))
        return "is neither a number nor the name of a DSCP";
    bad = config_parse_uint(text, &value);
    if (bad)
        return bad;
    if (value <= UINT8_MAX && value & TOS_ECN_BITS)
        return "sets one of the two lowest bits, which are those of ECN (write a DSCP as four times its value, or by "
               "its name)";
    *value_p = value;
    return NULL;
}

/* Word i of "a|b|c", or NULL past the last. */
static const char *config_choice_word(const char *range, uint64_t i, size_t *len_bytes_p)
{
    for (; i; i--) {
        range = strchr(range, '|');
        if (!range)
            return NULL;
        range++;
    }
    *len_bytes_p = strcspn(range, "|");
    return range;
}

static const char *config_parse_choice(const char *text, const char *range, uint64_t *value_p)
{
    const char *word;
    size_t len_bytes;

    for (uint64_t i = 0; (word = config_choice_word(range, i, &len_bytes)); i++)
        if (strlen(text) == len_bytes && !strncasecmp(text, word, len_bytes)) {
            *value_p = i;
            return NULL;
        }
    return "is none of its words";
}

static const char *config_parse_string(const char *text, char *value)
{
    if (strlen(text) >= EMX_STRING_MAX)
        return "is too long";
    for (const char *p = text; *p; p++)
        if (iscntrl((unsigned char)*p))
            return "has control characters in it";
    strcpy(value, text);
    return NULL;
}

static const char *config_check_range(unsigned i, uint64_t value)
{
    if (value > rows[i].max)
        return "is too large";
    if (value < rows[i].min || (i == EMX_P_mtu && value && value < MTU_MIN))
        return "is too small";
    return NULL;
}

static const char *config_parse_number(unsigned i, const char *text, uint64_t *value_p)
{
    uint64_t value;
    const char *bad;

    if (rows[i].type == EMX_PARAM_CHOICE)
        return config_parse_choice(text, rows[i].range, value_p);
    if (rows[i].type == EMX_PARAM_SIZE)
        bad = config_parse_size(text, &value);
    else if (rows[i].type == EMX_PARAM_TIME)
        bad = config_parse_time(text, &value);
    else if (rows[i].type == EMX_PARAM_TOS)
        bad = config_parse_tos(text, &value);
    else
        bad = config_parse_uint(text, &value);
    if (!bad)
        bad = config_check_range(i, value);
    if (!bad)
        *value_p = value;
    return bad;
}

static const char *config_parse(struct emx_config *cfg, unsigned i, const char *text)
{
    void *field = (char *)cfg + rows[i].offset;

    switch (rows[i].type) {
    case EMX_PARAM_BOOL:
        return config_parse_bool(text, field);
    case EMX_PARAM_STRING:
        return config_parse_string(text, field);
    default:
        return config_parse_number(i, text, field);
    }
}

/* ---- The parameter's names ---- */

/* "eager_max" as "ETHMX_EAGER_MAX". */
static void config_variable_name(unsigned i, char *text, size_t len_bytes)
{
    size_t n = (size_t)snprintf(text, len_bytes, PREFIX "%s", rows[i].name);

    for (size_t j = 0; j < n && j < len_bytes; j++)
        text[j] = (char)toupper((unsigned char)text[j]);
}

int emx_config_find(const char *name)
{
    for (unsigned i = 0; i < EMX_P_COUNT; i++)
        if (!strcmp(name, rows[i].name))
            return (int)i;
    return -1;
}

/* How many letters must be changed, added or left out to make b of a (Levenshtein's distance). row[j] is the distance
 * of the letters of a seen so far to the first j letters of b. */
static unsigned config_distance(const char *a, const char *b)
{
    unsigned row[NAME_MAX_BYTES + 1];
    unsigned b_len = (unsigned)strnlen(b, NAME_MAX_BYTES);

    for (unsigned j = 0; j <= b_len; j++)
        row[j] = j;
    for (unsigned i = 0; i < NAME_MAX_BYTES && a[i]; i++) {
        unsigned corner = row[0]++;

        for (unsigned j = 0; j < b_len; j++) {
            unsigned best = corner + (a[i] != b[j]);

            corner = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (corner + 1 < best)
                best = corner + 1;
            row[j + 1] = best;
        }
    }
    return row[b_len];
}

static unsigned config_nearest(const char *name)
{
    unsigned best = 0, best_distance = UINT32_MAX;

    for (unsigned i = 0; i < EMX_P_COUNT; i++) {
        unsigned d = config_distance(name, rows[i].name);

        if (d < best_distance) {
            best = i;
            best_distance = d;
        }
    }
    return best;
}

/* ---- The interface ---- */

void emx_config_defaults(struct emx_config *cfg)
{
    memset(cfg, 0, sizeof(*cfg));
    for (unsigned i = 0; i < EMX_P_COUNT; i++) {
        config_parse(cfg, i, rows[i].deflt);
        cfg->source[i] = "default";
    }
}

int emx_config_parse(struct emx_config *cfg, unsigned i, const char *text, const char *source, char *err,
                     size_t err_len_bytes)
{
    char variable[sizeof(PREFIX) + NAME_MAX_BYTES];
    const char *bad;

    if (i >= EMX_P_COUNT) {
        snprintf(err, err_len_bytes, "there is no parameter number %u", i);
        return ETHMX_ERR_PARAM;
    }
    bad = config_parse(cfg, i, text);
    if (bad) {
        config_variable_name(i, variable, sizeof(variable));
        snprintf(err, err_len_bytes, "parameter %s (%s, set by %s): \"%.64s\" %s; it takes %s", rows[i].name, variable,
                 source, text, bad, rows[i].range);
        return ETHMX_ERR_PARAM;
    }
    cfg->source[i] = source;
    return ETHMX_OK;
}

/* The parameter that the environment's entry (NAME=value) sets, or -1. *text_p: the value. */
static int config_entry_param(const char *entry, const char **text_p)
{
    const char *equals = strchr(entry, '=');

    if (!equals)
        return -1;
    for (unsigned i = 0; i < EMX_P_COUNT; i++) {
        char variable[sizeof(PREFIX) + NAME_MAX_BYTES];

        config_variable_name(i, variable, sizeof(variable));
        if (strlen(variable) == (size_t)(equals - entry) && !strncmp(entry, variable, strlen(variable))) {
            *text_p = equals + 1;
            return (int)i;
        }
    }
    return -1;
}

/* Parameters that were renamed. */
static const struct {
    const char *former, *now;
} config_renamed[] = {{"bulk_ring", "gso_buffer"}, {"gso_ring", "gso_buffer"}};

static unsigned config_meant(const char *name)
{
    for (unsigned i = 0; i < sizeof(config_renamed) / sizeof(config_renamed[0]); i++)
        if (!strcmp(name, config_renamed[i].former))
            return (unsigned)emx_config_find(config_renamed[i].now);
    return config_nearest(name);
}

static void config_warn_unknown(const char *entry, void (*warn)(void *arg, const char *sentence), void *arg)
{
    char name[NAME_MAX_BYTES], variable[sizeof(PREFIX) + NAME_MAX_BYTES], sentence[256];

    snprintf(name, sizeof(name), "%s", entry + strlen(PREFIX));
    name[strcspn(name, "=")] = 0;
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    config_variable_name(config_meant(name), variable, sizeof(variable));
    snprintf(sentence, sizeof(sentence), "%.*s is set, but there is no such parameter; the nearest is %s",
             (int)(strlen(PREFIX) + strlen(name)), entry, variable);
    warn(arg, sentence);
}

int emx_config_environ(struct emx_config *cfg, char *const *environ, void (*warn)(void *arg, const char *sentence),
                       void *arg, char *err, size_t err_len_bytes)
{
    for (; *environ; environ++) {
        const char *text;
        int i;

        if (strncmp(*environ, PREFIX, strlen(PREFIX)))
            continue;
        i = config_entry_param(*environ, &text);
        if (i < 0) {
            config_warn_unknown(*environ, warn, arg);
            continue;
        }
        if (emx_config_parse(cfg, (unsigned)i, text, "environment", err, err_len_bytes))
            return ETHMX_ERR_PARAM;
    }
    return ETHMX_OK;
}

static void config_format_united(uint64_t value, const struct unit *units, unsigned count, char *text, size_t len_bytes)
{
    for (unsigned i = 0; value && i < count; i++)
        if (value % units[i].factor == 0) {
            snprintf(text, len_bytes, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
            return;
        }
    snprintf(text, len_bytes, "%" PRIu64, value);
}

/* By its name, if it has one; the default stays a number. */
static void config_format_tos(uint64_t value, char *text, size_t len_bytes)
{
    snprintf(text, len_bytes, "%" PRIu64, value);
    for (unsigned i = 0; value && i < sizeof(config_dscps) / sizeof(config_dscps[0]); i++)
        if (value == (uint64_t)config_dscps[i].dscp << TOS_DSCP_SHIFT)
            snprintf(text, len_bytes, "%s", config_dscps[i].name);
}

void emx_config_format(const struct emx_config *cfg, unsigned i, char *text, size_t text_len_bytes)
{
    const char *field = (const char *)cfg + rows[i].offset;
    const uint64_t *number = (const void *)field;
    const char *word;
    size_t word_bytes = 0;

    switch (rows[i].type) {
    case EMX_PARAM_BOOL:
        snprintf(text, text_len_bytes, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case EMX_PARAM_STRING:
        snprintf(text, text_len_bytes, "%s", field);
        break;
    case EMX_PARAM_SIZE:
        config_format_united(*number, sizes, sizeof(sizes) / sizeof(sizes[0]), text, text_len_bytes);
        break;
    case EMX_PARAM_TIME:
        config_format_united(*number, times, sizeof(times) / sizeof(times[0]), text, text_len_bytes);
        break;
    case EMX_PARAM_CHOICE:
        word = config_choice_word(rows[i].range, *number, &word_bytes);
        snprintf(text, text_len_bytes, "%.*s", (int)word_bytes, word ? word : "");
        break;
    case EMX_PARAM_TOS:
        config_format_tos(*number, text, text_len_bytes);
        break;
    case EMX_PARAM_UINT: /* written as its default is */
        snprintf(text, text_len_bytes, strncmp(rows[i].deflt, "0x", 2) ? "%" PRIu64 : "0x%" PRIx64, *number);
        break;
    }
}
