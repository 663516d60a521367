/* chain_table.c - computes the table of least recomputation, for every range of blocks and every memory.
 *
 * When a range [i, j) of blocks starts, the input of block i is in memory. The range runs forward and then backward, in one of
 * three ways:
 * - at once: the range is a single block, whose backward directly follows its forward
 * - option o of block i: the forward of block i runs and keeps the storages of the option; then the rest of the range runs;
 *   then the backward of block i
 * - split at k: forward runs from block i to block k and keeps nothing; then the range [k, j) runs; then the range [i, k) runs,
 *   starting from the input of block i
 *
 * A split reads the input of the range twice. So it is allowed only if the input is kept outside of the range. A range that
 * owns its input counts the input among its bytes. Either it frees the input after the first block has read it. Or it keeps the
 * input, and is then treated as a range whose input is kept outside. The range after a split owns its input. So does the range
 * after an option that does not need the block's output in backward.
 *
 * A range that ends with the last block runs in the first pass. In the first pass every forward node runs in any case, so
 * forward costs no additional ticks. */
#include "planner/chain/chain.h"

#include "estimator/base/integers.h"

/* Codes of a mp_chain_choice in one byte. AT_ONCE: the range is a single block, run at once. OPTION + k: option k of the first
 * block. SPLIT + n - 1: a split after n blocks. HOLD: the range keeps its input. */
enum { AT_ONCE = 0, OPTION = 1, SPLIT = OPTION + MP_CHAIN_OPTIONS, HOLD = UINT8_MAX };

static const int64_t never = INT64_MAX / 4;

static size_t row_of(const mp_chain_table *table, int i, int j, bool owns_input)
{
    const size_t pair = (size_t)j * ((size_t)j - 1) / 2 + (size_t)i;
    return (2 * pair + owns_input) * ((size_t)table->n_slots + 1);
}

static int slots_of(const mp_chain_table *table, int64_t bytes)
{
    const int64_t slots = bytes / table->slot_bytes + (bytes % table->slot_bytes != 0);
    return slots > table->n_slots ? table->n_slots + 1 : (int)slots;
}

/* A way to run a range of blocks. It needs a memory of at least `least_bytes` and costs `ticks` itself. The range `after`, if
 * there is one, adds its ticks in the memory less kept_bytes. The range `before`, if there is one, adds its ticks in the full
 * memory. */
typedef struct way {
    int choice;
    int64_t least_bytes, kept_bytes, ticks;
    const int64_t *after, *before;
} way;

/* Returns the first index of [from, n) with at most `most` ticks; n: none. The ticks of a range do not increase with memory. */
static int first_within(const int64_t *ticks, int from, int n, int64_t most)
{
    while (from < n) {
        const int middle = from + (n - from) / 2;
        if (ticks[middle] > most)
            from = middle + 1;
        else
            n = middle;
    }
    return from;
}

/* Takes a way for each memory in which it is the fastest so far. These memories are between the smallest in which both ranges
 * can run, and the first in which the row already takes as few ticks as the way takes in the largest memory. */
static void consider(const mp_chain_table *table, size_t row, const way *w)
{
    int64_t *ticks = table->ticks + row;
    uint8_t *choice = table->choice + row;
    const int n = table->n_slots + 1, kept = slots_of(table, w->kept_bytes), least = slots_of(table, w->least_bytes);
    int from = least > kept ? least : kept;
    if (from >= n) return;
    if (w->after) from = kept + first_within(w->after, from - kept, n - kept, never - 1);
    if (w->before) from = first_within(w->before, from, n, never - 1);
    const int64_t fewest = w->ticks + (w->after ? w->after[n - 1 - kept] : 0) + (w->before ? w->before[n - 1] : 0);
    const int end = first_within(ticks, from, n, fewest);
    for (int m = from; m < end; m++) {
        int64_t sum = w->ticks;
        if (w->after) sum += w->after[m - kept];
        if (w->before) sum += w->before[m];
        if (sum >= ticks[m]) continue;
        ticks[m] = sum;
        choice[m] = (uint8_t)w->choice;
    }
}

/* Returns the bytes outside of a range that are live while the range runs forward. The range ends before block j. */
static int64_t around_bytes(const mp_chain *chain, int j)
{
    return j == chain->n ? 0 : chain->blocks[j - 1].gradient_bytes + chain->blocks[j - 1].pinned_bytes;
}

/* Considers two kinds of ways to run block i as the first block of a range: at once, or with one of its options. */
static void consider_block(const mp_chain_table *table, int i, int j, bool owns_input)
{
    const mp_chain *chain = table->chain;
    const mp_chain_block *b = &chain->blocks[i];
    const bool first = j == chain->n;
    const size_t row = row_of(table, i, j, owns_input);
    if (i + 1 == j) {
        const way at_once = {AT_ONCE, b->alone_need.bytes[owns_input], 0, first ? 0 : b->alone.ticks, NULL, NULL};
        consider(table, row, &at_once);
        return;
    }
    for (size_t o = 0; o < b->n_options; o++) {
        const mp_chain_option *option = &b->options[o];
        if (owns_input && !option->frees_input) continue;
        const int64_t forward_bytes =
            first ? option->first_need.bytes[owns_input] : option->rerun_need.bytes[owns_input] + around_bytes(chain, j);
        const way hold = {OPTION + (int)o,
                          mp_larger(forward_bytes, option->backward_bytes),
                          option->kept_bytes,
                          (first ? 0 : option->rerun.ticks) + option->backward.ticks,
                          table->ticks + row_of(table, i + 1, j, !option->keeps_output),
                          NULL};
        consider(table, row, &hold);
    }
}

static void solve_stretch(const mp_chain_table *table, int i, int j)
{
    const mp_chain *chain = table->chain;
    const mp_chain_block *blocks = chain->blocks;
    const bool first = j == chain->n;
    const size_t row = row_of(table, i, j, false), owner = row_of(table, i, j, true);
    int64_t ticks = 0, bytes = 0;
    for (int m = 0; m <= table->n_slots; m++) table->ticks[row + (size_t)m] = table->ticks[owner + (size_t)m] = never;
    consider_block(table, i, j, false);
    for (int k = i; k + 1 < j; k++) {
        bytes = mp_larger(bytes, (first ? blocks[k].first_need : blocks[k].advance_need).bytes[k > i] + around_bytes(chain, j));
        if (!first) ticks += blocks[k].advance.ticks;
        const way split = {SPLIT + k - i,
                           bytes,
                           0,
                           ticks,
                           table->ticks + row_of(table, k + 1, j, true),
                           table->ticks + row_of(table, i, k + 1, false)};
        consider(table, row, &split);
    }
    consider_block(table, i, j, true);
    const way hold = {HOLD, 0, i > 0 ? blocks[i - 1].output_bytes : 0, 0, table->ticks + row, NULL};
    consider(table, owner, &hold);
}

int64_t mp_chain_whole_bytes(const mp_chain *chain)
{
    int64_t kept = 0, whole = chain->blocks[chain->n - 1].alone_need.bytes[0];
    for (int k = 0; k + 1 < chain->n; k++) {
        const mp_chain_option *option = &chain->blocks[k].options[0];
        whole = mp_larger(whole, kept + mp_larger(option->first_need.bytes[0], option->backward_bytes));
        kept += option->kept_bytes + (option->keeps_output ? 0 : chain->blocks[k].output_bytes);
    }
    return mp_larger(whole, kept + chain->blocks[chain->n - 1].alone_need.bytes[0]);
}

/* Returns the greatest common divisor of all byte counts in the table, so that a slot of this size needs no rounding. */
static int64_t unit_bytes(const mp_chain *chain)
{
    int64_t unit = 0;
    for (int k = 0; k < chain->n; k++) {
        const mp_chain_block *b = &chain->blocks[k];
        const int64_t bytes[] = {b->output_bytes,        b->pinned_bytes,          b->gradient_bytes,
                                 b->first_need.bytes[0], b->advance_need.bytes[0], b->alone_need.bytes[0]};
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) unit = mp_gcd(unit, bytes[i]);
        for (size_t o = 0; o < b->n_options; o++) {
            const mp_chain_option *p = &b->options[o];
            const int64_t more[] = {p->kept_bytes, p->first_need.bytes[0], p->rerun_need.bytes[0], p->backward_bytes};
            for (size_t i = 0; i < sizeof more / sizeof *more; i++) unit = mp_gcd(unit, more[i]);
        }
    }
    return unit ? unit : 1;
}

/* Returns the number of slots for a chain of n_blocks. A shorter chain gets more slots, so that its table is as large as that
 * of the longest allowed chain. */
static int64_t most_slots(int n_blocks)
{
    const int64_t slots = (int64_t)MP_CHAIN_SLOTS * MP_CHAIN_BLOCKS * MP_CHAIN_BLOCKS / n_blocks / n_blocks;
    return slots > MP_CHAIN_MOST_SLOTS ? MP_CHAIN_MOST_SLOTS : slots;
}

static int64_t round_up(int64_t bytes, int64_t slot_bytes)
{
    return (bytes / slot_bytes + (bytes % slot_bytes != 0)) * slot_bytes;
}

/* Returns the sum of the bytes that all blocks keep if everything is kept, with each block's bytes rounded up to slots. */
static double rounded_bytes(const mp_chain *chain, int64_t slot_bytes)
{
    double sum = 0;
    for (int k = 0; k < chain->n; k++) {
        sum += (double)round_up(chain->blocks[k].output_bytes, slot_bytes);
        for (size_t o = 0; o < chain->blocks[k].n_options; o++)
            sum += (double)round_up(chain->blocks[k].options[o].kept_bytes, slot_bytes);
    }
    return sum;
}

/* Returns the slot size of the table, in [least_bytes, 2 * least_bytes). Byte counts are rounded up to multiples of it. The
 * candidates divide the bytes of some option without remainder. The candidate with the least total rounding is chosen. */
static int64_t fitting_bytes(const mp_chain *chain, int64_t least_bytes)
{
    int64_t best = least_bytes;
    double least = rounded_bytes(chain, best);
    for (int k = 0; k < chain->n; k++) {
        const mp_chain_block *b = &chain->blocks[k];
        for (size_t o = 0; o <= b->n_options; o++) {
            const int64_t kept = o < b->n_options ? b->options[o].kept_bytes : b->output_bytes, slots = kept / least_bytes;
            if (slots == 0) continue;
            const int64_t bytes = kept / slots + (kept % slots != 0);
            const double sum = rounded_bytes(chain, bytes);
            if (sum >= least) continue;
            least = sum;
            best = bytes;
        }
    }
    return best;
}

mp_status mp_chain_solve(const mp_chain *chain, int part, mp_search *search, mp_chain_table **out, mp_error *err)
{
    const int64_t most_bytes = mp_chain_whole_bytes(chain);
    MP_OWNED_BY(mp_chain_table_free) mp_chain_table *table = mp_alloc(1, sizeof *table);
    size_t n_cells;
    *out = NULL;
    MP_ENSURE(table, err, MP_NOMEM, "out of memory for a chain of %d blocks", chain->n);
    table->chain = chain;
    table->slot_bytes = unit_bytes(chain);
    const int64_t most = most_slots(chain->n);
    if (most_bytes / table->slot_bytes >= most) table->slot_bytes = fitting_bytes(chain, most_bytes / most + 1);
    table->n_slots = (int)(most_bytes / table->slot_bytes / part) + 1;
    n_cells = row_of(table, 0, chain->n + 1, false);
    table->ticks = mp_alloc(n_cells, sizeof *table->ticks);
    table->choice = mp_alloc(n_cells, sizeof *table->choice);
    MP_ENSURE(table->ticks && table->choice, err, MP_NOMEM, "out of memory for a chain of %d blocks", chain->n);
    for (int length = 1; length <= chain->n; length++)
        for (int i = 0; i + length <= chain->n; i++) {
            if (search && mp_search_stopped(search)) return MP_OK;
            solve_stretch(table, i, i + length);
        }
    *out = table;
    table = NULL;
    return MP_OK;
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
    const int64_t ticks = table->ticks[row_of(table, 0, table->chain->n, false) + (size_t)slots];
    return ticks >= never ? MP_CHAIN_NEVER : ticks;
}

mp_chain_choice mp_chain_choose(const mp_chain_table *table, mp_chain_stretch s)
{
    const mp_chain_block *blocks = table->chain->blocks;
    int choice = table->choice[row_of(table, s.begin, s.end, s.owns_input) + (size_t)s.slots];
    if (choice == HOLD) {
        s.slots -= slots_of(table, s.begin > 0 ? blocks[s.begin - 1].output_bytes : 0);
        s.owns_input = false;
        choice = table->choice[row_of(table, s.begin, s.end, false) + (size_t)s.slots];
    }
    mp_chain_choice c = {.option = -1, .after = s, .before = s};
    if (choice == AT_ONCE) {
        c.after.begin = s.end;
        c.before.end = s.begin;
    } else if (choice < SPLIT) {
        c.option = choice - OPTION;
        const mp_chain_option *option = &blocks[s.begin].options[c.option];
        c.after.begin = s.begin + 1;
        c.after.slots -= slots_of(table, option->kept_bytes);
        c.after.owns_input = !option->keeps_output;
        c.before.end = s.begin;
    } else {
        c.before.end = c.after.begin = s.begin + choice - SPLIT + 1;
        c.after.owns_input = true;
    }
    return c;
}
