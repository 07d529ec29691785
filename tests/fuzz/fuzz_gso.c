/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets from the network: the frames taken out lie in the bytes given, in order, and none twice; counts fit.
 */
#include "fuzz.h"
#include "wire/gso.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz_input in = {data, len_bytes};
    size_t part_bytes = (size_t)fuzz_number(&in, 2);
    uint8_t *ip = fuzz_copy(in.at, in.left_bytes), sum = 0;
    const uint8_t *at, *end = ip + in.left_bytes, *frame;
    struct emx_gso s;
    uint32_t bytes, n = 0, parts;

    if (emx_gso_open(&s, ip, in.left_bytes, part_bytes)) {
        parts = s.parts;
        at = ip + (ip[0] >> 4 == 6 ? EMX_GSO_IP6_BYTES : EMX_GSO_IP_BYTES);
        while ((frame = emx_gso_next(&s, &bytes))) {
            FUZZ_CHECK(frame == at && bytes && bytes <= (size_t)(end - at), "a frame out of bounds");
            for (uint32_t i = 0; i < bytes; i++)
                sum ^= frame[i];
            at += bytes;
            n++;
        }
        FUZZ_CHECK(n == parts, "%u frames where %u were promised", n, parts);
    }
    free(ip);
    (void)sum;
    return 0;
}
