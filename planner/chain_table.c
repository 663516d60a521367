/* chain_table.c - the dynamic program over a chain: for every stretch of blocks and every memory the least recomputation.
 *
 * The stretch i..j has the input of block i in memory, which others hold, and the gradients of its end. It is run to its own
 * backward's end in one of these ways:
 *  - split at k: advance from i to k, hold the input of k, run the stretch k..j, then i..k-1, which starts from the same input;
 *  - option o at i: run block i forward with what the option holds, then the stretch after it, then backward of i;
 *  - option o at k > i: advance to k, run it forward and give its input up; then k+1..j, backward of k, and i..k-1;
 *  - at the end: advance to j, run it forward and backward at once, giving its input up as early as it can; then i..j-1.
 * A stretch that ends with the last block is run in the first pass, where every forward node runs anyway: its forward runs
 * cost nothing, and backward holds nothing yet.
 */
#include "planner/chain.h"

enum { SPLIT = 0, END = MP_CHAIN_OPTIONS + 1, KIND = 256 }; /* choice = KIND * kind + block; kinds between: 1 + option */

static const int64_t never = INT64_MAX / 4;

static size_t pair_of(int i, int j)
{
    return (size_t)j * ((size_t)j + 1) / 2 + (size_t)i;
}

static int slots_of(const mp_chain_table *table, int64_t bytes)
{
    const int64_t slots = bytes / table->slot_bytes + (bytes % table->slot_bytes != 0);
    return slots > table->n_slots ? table->n_slots + 1 : (int)slots;
}

static int64_t *ticks_of(const mp_chain_table *table, int i, int j)
{
    return table->ticks + pair_of(i, j) * ((size_t)table->n_slots + 1);
}

/* A way to run the stretch: from `least` slots on it costs `ticks`, and what `after` costs with `held` slots less, and what
 * `before` costs with all. Either may be missing. */
typedef struct way {
    int choice, least, held;
    int64_t ticks;
    const int64_t *after, *before;
} way;

static void consider(const mp_chain_table *table, int i, int j, const way *w)
{
    int64_t *ticks = ticks_of(table, i, j);
    uint16_t *choice = table->choice + pair_of(i, j) * ((size_t)table->n_slots + 1);
    for (int m = w->least > w->held ? w->least : w->held; m <= table->n_slots; m++) {
        int64_t sum = w->ticks;
        if (w->after) sum += w->after[m - w->held];
        if (w->before) sum += w->before[m];
        if (sum >= ticks[m]) continue;
        ticks[m] = sum;
        choice[m] = (uint16_t)w->choice;
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Everything that can be done at block k of the stretch i..j, to which it takes `ticks` and `bytes` to advance. */
static void consider_block(const mp_chain_table *table, int i, int k, int j, int64_t ticks, int64_t bytes)
{
    const mp_chain_block *blocks = table->chain->blocks, *b = &blocks[k];
    const bool first = j == table->chain->n - 1;
    const int64_t around = first ? 0 : blocks[j].gradient_bytes + blocks[j].pinned_bytes; /* while it runs forward */
    const int64_t *before = k > i ? ticks_of(table, i, k - 1) : NULL;
    if (k > i) {
        const int64_t held = blocks[k - 1].output_bytes;
        const way split = {
            KIND * SPLIT + k, slots_of(table, bytes), slots_of(table, held), ticks, ticks_of(table, k, j), before};
        consider(table, i, j, &split);
    }
    if (k == j) {
        const int least = slots_of(table, larger(bytes, b->alone_need.bytes[k > i]));
        const way end = {KIND * END + k, least, 0, ticks + (first ? 0 : b->alone.ticks), NULL, before};
        consider(table, i, j, &end);
        return;
    }
    for (size_t o = 0; o < b->n_options; o++) {
        const mp_chain_option *option = &b->options[o];
        if (k > i && !option->frees_input) continue;
        int64_t least = first ? option->first_need.bytes[k > i] : option->again_need.bytes[k > i] + around;
        least = larger(larger(least, option->backward_bytes), bytes);
        const way hold = {KIND * (1 + (int)o) + k,
                          slots_of(table, least),
                          slots_of(table, option->held_bytes),
                          ticks + (first ? 0 : option->again.ticks) + option->backward.ticks,
                          ticks_of(table, k + 1, j),
                          before};
        consider(table, i, j, &hold);
    }
}

static void solve_stretch(const mp_chain_table *table, int i, int j)
{
    const mp_chain_block *blocks = table->chain->blocks;
    const bool first = j == table->chain->n - 1;
    int64_t *least = ticks_of(table, i, j), ticks = 0, bytes = 0;
    for (int m = 0; m <= table->n_slots; m++) least[m] = never;
    for (int k = i; k <= j; k++) {
        consider_block(table, i, k, j, ticks, bytes);
        const int64_t around = blocks[j].gradient_bytes + blocks[j].pinned_bytes;
        bytes = larger(bytes, first ? blocks[k].first_need.bytes[k > i] : blocks[k].advance_need.bytes[k > i] + around);
        if (!first) ticks += blocks[k].advance.ticks;
    }
}

int64_t mp_chain_whole_bytes(const mp_chain *chain)
{
    int64_t held = 0, whole = chain->blocks[chain->n - 1].alone_need.bytes[0];
    for (int k = 0; k + 1 < chain->n; k++) {
        const mp_chain_option *option = &chain->blocks[k].options[0];
        whole = larger(whole, held + larger(option->first_need.bytes[0], option->backward_bytes));
        held += option->held_bytes;
    }
    return larger(whole, held + chain->blocks[chain->n - 1].alone_need.bytes[0]);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

/* What divides all bytes that are compared. */
static int64_t unit_bytes(const mp_chain *chain)
{
    int64_t unit = 0;
    for (int k = 0; k < chain->n; k++) {
        const mp_chain_block *b = &chain->blocks[k];
        const int64_t bytes[] = {b->output_bytes,        b->pinned_bytes,          b->gradient_bytes,
                                 b->first_need.bytes[0], b->advance_need.bytes[0], b->alone_need.bytes[0]};
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) unit = common_divisor(unit, bytes[i]);
        for (size_t o = 0; o < b->n_options; o++) {
            const mp_chain_option *p = &b->options[o];
            const int64_t more[] = {p->held_bytes, p->first_need.bytes[0], p->again_need.bytes[0], p->backward_bytes};
            for (size_t i = 0; i < sizeof more / sizeof *more; i++) unit = common_divisor(unit, more[i]);
        }
    }
    return unit ? unit : 1;
}

mp_status mp_chain_solve(const mp_chain *chain, int64_t most_bytes, mp_search *search, mp_chain_table **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_chain_table *table = mp_alloc(1, sizeof *table);
    const size_t n_pairs = pair_of(chain->n - 1, chain->n - 1) + 1;
    *out = NULL;
    MP_REQUIRE(table, err, MP_NOMEM, "out of memory for a chain of %d blocks", chain->n);
    table->chain = chain;
    table->slot_bytes = unit_bytes(chain);
    if (most_bytes / table->slot_bytes > MP_CHAIN_SLOTS) table->slot_bytes = most_bytes / MP_CHAIN_SLOTS + 1;
    table->n_slots = MP_CHAIN_SLOTS;
    if (most_bytes / table->slot_bytes < MP_CHAIN_SLOTS) table->n_slots = (int)(most_bytes / table->slot_bytes) + 1;
    table->ticks = mp_alloc(n_pairs * ((size_t)table->n_slots + 1), sizeof *table->ticks);
    table->choice = mp_alloc(n_pairs * ((size_t)table->n_slots + 1), sizeof *table->choice);
    MP_REQUIRE(table->ticks && table->choice, err, MP_NOMEM, "out of memory for a chain of %d blocks", chain->n);
    for (int length = 1; length <= chain->n; length++)
        for (int i = 0; i + length <= chain->n; i++) {
            if (mp_search_stopped(search)) goto done;
            solve_stretch(table, i, i + length - 1);
        }
    *out = table;
    table = NULL;
done:
    mp_chain_table_free(table);
    return st;
}

void mp_chain_table_free(mp_chain_table *table)
{
    if (!table) return;
    mp_free(table->ticks);
    mp_free(table->choice);
    mp_free(table);
}

int64_t mp_chain_ticks(const mp_chain_table *table, int slots)
{
    const int64_t ticks = ticks_of(table, 0, table->chain->n - 1)[slots];
    return ticks >= never ? MP_CHAIN_NEVER : ticks;
}

mp_chain_choice mp_chain_choose(const mp_chain_table *table, int i, int j, int slots)
{
    const int choice = table->choice[pair_of(i, j) * ((size_t)table->n_slots + 1) + (size_t)slots];
    mp_chain_choice c = {.block = choice % KIND, .option = choice / KIND - 1};
    c.at_end = choice / KIND == END;
    if (c.at_end) return c;
    const mp_chain_block *blocks = table->chain->blocks;
    const int64_t held = c.option < 0 ? blocks[c.block - 1].output_bytes : blocks[c.block].options[c.option].held_bytes;
    c.slots = slots - slots_of(table, held);
    return c;
}
