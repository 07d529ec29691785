/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Histories: two or three engines, operations, time, and a network that does to frames what the input says. After each
 * step all invariants must hold; when no frame was altered, contents must be right.
 */
#include "fuzz.h"
#include "history.h"

enum { STEPS_MAX = 400 };

static void step(struct history *h, struct fuzz_input *in)
{
    unsigned n = fuzz_below(in, history_nodes(h)), a, b, c;

    switch (fuzz_below(in, 18)) {
    case 0:
    case 1:
    case 2:
        a = fuzz_below(in, 4), b = fuzz_below(in, 8), c = fuzz_below(in, 4);
        history_send(h, n, n + 1 + a, b, history_length(fuzz_below(in, 256)), c == 0, false);
        break;
    case 3:
    case 4:
    case 5:
        a = fuzz_below(in, 4), b = fuzz_below(in, 8), c = fuzz_below(in, 4);
        history_receive(h, n, n + 1 + a, b, history_length(fuzz_below(in, 256)), c);
        break;
    case 6:
        a = fuzz_below(in, 4);
        history_send(h, n, n + 1 + a, 1, history_length(fuzz_below(in, 256)), false, true);
        break;
    case 7:
        history_cancel(h, fuzz_below(in, 256));
        break;
    case 8:
        a = fuzz_below(in, 4);
        history_take(h, n, a, fuzz_below(in, 8));
        break;
    case 9:
    case 10:
        history_deliver(h, fuzz_below(in, 256));
        break;
    case 11:
        history_deliver_all(h);
        break;
    case 12:
        history_lose(h, fuzz_below(in, 256));
        break;
    case 13:
        history_double(h, fuzz_below(in, 256));
        break;
    case 14:
        a = fuzz_below(in, 256), b = fuzz_below(in, 2048);
        history_alter(h, a, b, (uint8_t)fuzz_number(in, 1), fuzz_below(in, 2));
        break;
    case 15:
        history_pass(h, UINT64_C(1000) << fuzz_below(in, 24));
        break;
    case 16:
        history_next_deadline(h);
        break;
    case 17:
        a = fuzz_below(in, 32);
        if (a == 0)
            history_restart(h, n);
        else if (a == 1)
            history_goodbye(h, n);
        else if (a < 6)
            history_remove(h, n, n + 1 + fuzz_below(in, 4), a % 2);
        else if (a >= 29)
            history_withdraw(h, n);
        else if (a >= 26)
            history_rma_flush(h, n, n + 1, a % 2);
        else if (a >= 14)
            b = fuzz_below(in, 4), history_rma(h, n, n + b, fuzz_below(in, 65535));
        else
            history_flush(h, n, a % 8);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz_input in = {data, len_bytes};
    unsigned nodes = 2 + fuzz_below(&in, 2);
    struct history *h = history_begin(nodes, (unsigned)fuzz_number(&in, 1));

    for (unsigned i = 0; in.left_bytes && i < STEPS_MAX; i++)
        step(h, &in);
    history_quiet(h);
    history_end(h);
    return 0;
}
