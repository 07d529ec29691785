/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plays files as inputs of a fuzz target: TARGET FILE...
 */
#include "fuzz.h"

static void play(const char *name)
{
    FILE *f = fopen(name, "rb");
    uint8_t *data;
    size_t len_bytes;
    long end;

    FUZZ_CHECK(f && !fseek(f, 0, SEEK_END) && (end = ftell(f)) >= 0 && !fseek(f, 0, SEEK_SET), "cannot read %s", name);
    data = malloc((size_t)end + 1);
    FUZZ_CHECK(data, "no memory");
    len_bytes = fread(data, 1, (size_t)end, f);
    fclose(f);
    LLVMFuzzerTestOneInput(data, len_bytes);
    free(data);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        fprintf(stderr, "%s\n", argv[i]);
        play(argv[i]);
    }
    printf("%d inputs played\n", argc - 1);
    return argc < 2;
}
