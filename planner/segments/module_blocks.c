/* module_blocks.c - finds the equal blocks of a network: modules whose names differ only in a number. */
#include "planner/segments/module_blocks.h"

#include <ctype.h>
#include <string.h>

#include "planner/segments/module_schedule.h"

/* Returns the length in bytes of a name before the number at its end; 0 if it does not end in a number. */
static int prefix_of(const char *name)
{
    const size_t length = strlen(name);
    size_t n = length;
    while (n > 0 && isdigit((unsigned char)name[n - 1])) n--;
    return n < length ? (int)n : 0;
}

static bool is_of(const mp_modules *m, int module, const char *first, int prefix)
{
    const mp_module *row = &m->modules[module];
    return !row->is_split && row->n_calls == 1 && prefix_of(row->name) == prefix && !strncmp(row->name, first, (size_t)prefix);
}

/* Returns the number of operators in all modules of a sequence of blocks; 0 if the sequence has fewer than two modules. */
static int operators_of(const mp_modules *m, const char *first, int prefix)
{
    int n_operators = 0, n = 0;
    for (int k = 0; k < m->n_calls; k++) {
        if (!is_of(m, m->calls[k].module, first, prefix)) continue;
        n_operators += m->calls[k].end - m->calls[k].first;
        n++;
    }
    return n > 1 ? n_operators : 0;
}

mp_status mp_module_blocks_find(const mp_modules *modules, mp_module_blocks *out, mp_error *err)
{
    int most = 0;
    const char *best = NULL;
    *out = (mp_module_blocks){.modules = modules, .module = mp_alloc((size_t)modules->n, sizeof *out->module)};
    if (!out->module) return MP_NO_MEMORY(err);
    for (int m = 0; m < modules->n; m++) {
        const char *name = modules->modules[m].name;
        const int prefix = prefix_of(name);
        if (!prefix || (best && is_of(modules, m, best, out->prefix))) continue;
        const int n = operators_of(modules, name, prefix);
        if (n <= most) continue;
        most = n;
        best = name;
        out->prefix = prefix;
    }
    for (int k = 0; best && k < modules->n_calls; k++)
        if (is_of(modules, modules->calls[k].module, best, out->prefix)) out->module[out->n++] = modules->calls[k].module;
    MP_ENSURE(out->n > 0, err, MP_NOT_APPLICABLE, "%s has no sequence of equal blocks, such as layers.0, layers.1, ...",
              modules->graph->name);
    return MP_OK;
}

void mp_module_blocks_free(mp_module_blocks *b)
{
    mp_free(b->module);
}

mp_status mp_module_blocks_judge(const mp_module_blocks *b, int k, const bool *kept, int64_t *peak_bytes, int64_t *ticks,
                                 mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n = 0;
    MP_OWNED bool *chosen = mp_alloc((size_t)b->modules->n, sizeof *chosen);
    if (!chosen) return MP_NO_MEMORY(err);
    for (int i = 0; i < k; i++) chosen[b->module[i]] = true;
    MP_CHECK(mp_module_schedule(b->modules, chosen, kept, &steps, &n, err));
    MP_CHECK(mp_timeline_build(b->modules->graph, steps, n, &timeline, err));
    *peak_bytes = timeline->peak_bytes;
    *ticks = timeline->ticks;
    return MP_OK;
}

mp_status mp_module_blocks_fewest(const mp_module_blocks *b, int64_t budget_bytes, int *k, int64_t *peak_bytes, int64_t *ticks,
                                  mp_error *err)
{
    for (*k = 0; *k <= b->n; ++*k) {
        const mp_status st = mp_module_blocks_judge(b, *k, NULL, peak_bytes, ticks, err);
        if (st != MP_OK || *peak_bytes <= budget_bytes) return st;
    }
    *k = -1;
    return MP_OK;
}
