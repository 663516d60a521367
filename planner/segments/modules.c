/* modules.c - the searcher "modules": finds a set of modules to wrap in torch.utils.checkpoint, none nested in another. The
 * timeline judges the sets.
 *
 * If there are few sets, all of them are tried. Otherwise sets are found in three ways, and the best sets are improved:
 * - growing: each round adds the module that removes the most bytes over the budget, summed over the steps, per tick. Gains
 *   change little between rounds, so few modules must be judged again in each round (Minoux 1978)
 * - classes: all modules whose names differ in numbers only are wrapped, such as every block, or the attention of every block
 * - the empty set
 *
 * Each step of the improvement removes or exchanges one module. A step is accepted if it saves time and adds no bytes over the
 * budget.
 */
#include "planner/segments/modules.h"

#include <ctype.h>
#include <string.h>

#include "estimator/base/names.h"
#include "planner/segments/module_schedule.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    MODULES_STARTS = 3, /* module granularity: number of sets of equal modules that serve as starts */
};

/* The result of judging a set of modules to wrap in torch.utils.checkpoint: the bytes over the budget, summed over all steps,
 * and the ticks and peak of the training step. */
typedef struct verdict {
    double excess;
    int64_t ticks, peak_bytes;
} verdict;

typedef struct finder {
    mp_search *search;
    mp_modules *modules;
    int64_t budget_bytes, work; /* budget_bytes: the budget; work: number of sets of modules that may still be judged */
    int64_t smallest_bytes;     /* the lowest peak in bytes of all sets judged so far */
    /* per module. chosen: true if the best set contains it. trial: true if the set to be judged contains it */
    bool *chosen, *trial;
    int *option, n_options; /* indices of the modules that may be wrapped in torch.utils.checkpoint, called options */
    /* per option (module that may be wrapped): bytes over the budget that the module removes per tick of recomputation, when
     * last judged */
    double *gain;
    /* per option (module that may be wrapped): index of the round in which the module was last judged */
    int *seen_in;
} finder;

static bool is_better(const verdict *a, const verdict *b)
{
    if (a->excess < b->excess || a->excess > b->excess) return a->excess < b->excess;
    return a->ticks != b->ticks ? a->ticks < b->ticks : a->peak_bytes < b->peak_bytes;
}

static mp_status judge(finder *x, const bool *chosen, verdict *out, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n = 0;
    x->work--;
    *out = (verdict){0};
    MP_CHECK(mp_module_schedule(x->modules, chosen, NULL, &steps, &n, err));
    MP_CHECK(mp_search_offer(x->search, steps, n, &out->peak_bytes, &out->ticks, err));
    if (out->peak_bytes < x->smallest_bytes) x->smallest_bytes = out->peak_bytes;
    if (out->peak_bytes <= x->budget_bytes) return MP_OK;
    MP_CHECK(mp_timeline_build(x->modules->graph, steps, n, &timeline, err));
    for (size_t t = 0; t < n; t++) {
        const int64_t over = timeline->static_bytes + timeline->live_bytes[t] - x->budget_bytes;
        if (over > 0) out->excess += (double)over;
    }
    return MP_OK;
}

static bool is_over(finder *x)
{
    return x->work <= 0 || mp_search_stopped(x->search);
}

/* Adds a module to a set. Removes from the set the modules that it contains or that contain it. */
static void put(const finder *x, bool *chosen, int module)
{
    for (int m = 0; m < x->modules->n; m++)
        if (chosen[m] && mp_modules_related(x->modules, m, module)) chosen[m] = false;
    chosen[module] = true;
}

static void copy_trial(finder *x)
{
    memcpy(x->trial, x->chosen, (size_t)x->modules->n * sizeof *x->trial);
}

static void take_trial(finder *x)
{
    memcpy(x->chosen, x->trial, (size_t)x->modules->n * sizeof *x->chosen);
}

/* ---- all sets ---- */

static mp_status try_all(finder *x, int k, mp_error *err)
{
    verdict unused;
    if (k == x->n_options) return is_over(x) ? MP_OK : judge(x, x->chosen, &unused, err);
    const int module = x->option[k];
    bool is_inside = false;
    for (int m = x->modules->modules[module].parent; m >= 0; m = x->modules->modules[m].parent) is_inside |= x->chosen[m];
    MP_CHECK(try_all(x, k + 1, err));
    if (is_inside) return MP_OK;
    x->chosen[module] = true;
    MP_CHECK(try_all(x, k + 1, err));
    x->chosen[module] = false;
    return MP_OK;
}

/* Counts the possible sets of modules to wrap in torch.utils.checkpoint. *are_few: there are at most `most` sets. */
static mp_status count_sets(const finder *x, double most, bool *are_few, mp_error *err)
{
    const mp_modules *m = x->modules;
    double all = 1;
    /* per module: number of sets of modules strictly inside it; wrapping the module itself is one more set */
    MP_OWNED double *inside = mp_alloc((size_t)m->n, sizeof *inside);
    MP_OWNED bool *is_option = mp_alloc((size_t)m->n, sizeof *is_option);
    if (!inside || !is_option) return MP_NO_MEMORY(err);
    for (int k = 0; k < x->n_options; k++) is_option[x->option[k]] = true;
    for (int k = 0; k < m->n; k++) inside[k] = 1;
    for (int k = m->n; k-- > 0;) {
        const double sets = inside[k] + is_option[k];
        double *into = m->modules[k].parent < 0 ? &all : &inside[m->modules[k].parent];
        *into = *into * sets > most ? most + 1 : *into * sets;
    }
    *are_few = all <= most;
    return MP_OK;
}

/* ---- growing ---- */

static mp_status look(finder *x, const verdict *now, int k, int round, mp_error *err)
{
    verdict found;
    copy_trial(x);
    put(x, x->trial, x->option[k]);
    MP_CHECK(judge(x, x->trial, &found, err));
    const int64_t more = found.ticks - now->ticks;
    x->gain[k] = (now->excess - found.excess) / (double)(more > 1 ? more : 1);
    x->seen_in[k] = round;
    return MP_OK;
}

static int best_gain(const finder *x)
{
    int best = 0;
    for (int k = 1; k < x->n_options; k++)
        if (x->gain[k] > x->gain[best]) best = k;
    return best;
}

/* Called after a module was added to the set. Discards the stored gains of the modules that it contains or that contain it. */
static void forget(finder *x, int module)
{
    for (int k = 0; k < x->n_options; k++)
        if (mp_modules_related(x->modules, x->option[k], module) && x->option[k] != module) x->gain[k] = 1e300;
}

static mp_status grow(finder *x, mp_error *err)
{
    verdict now;
    MP_CHECK(judge(x, x->chosen, &now, err));
    for (int k = 0; k < x->n_options; k++) x->gain[k] = 1e300;
    memset(x->seen_in, 0, (size_t)x->n_options * sizeof *x->seen_in);
    for (int round = 1; now.excess > 0 && !is_over(x); round++) {
        int best = best_gain(x);
        while (x->seen_in[best] < round && !is_over(x)) {
            MP_CHECK(look(x, &now, best, round, err));
            best = best_gain(x);
        }
        if (x->gain[best] <= 0 || is_over(x)) break;
        put(x, x->chosen, x->option[best]);
        x->gain[best] = 0;
        MP_CHECK(judge(x, x->chosen, &now, err));
        forget(x, x->option[best]);
    }
    return MP_OK;
}

/* ---- improving a set ---- */

/* Judges the set x->trial. If it is better than the chosen set, it becomes the chosen set. */
static mp_status try_trial(finder *x, verdict *now, bool *is_taken, mp_error *err)
{
    verdict found;
    const mp_status st = judge(x, x->trial, &found, err);
    *is_taken = st == MP_OK && is_better(&found, now);
    if (!*is_taken) return st;
    *now = found;
    take_trial(x);
    return st;
}

static mp_status thin(finder *x, mp_error *err)
{
    verdict now;
    bool is_taken = true;
    MP_CHECK(judge(x, x->chosen, &now, err));
    for (bool again = true; again;) {
        again = false;
        for (int m = 0; m < x->modules->n; m++) {
            if (!x->chosen[m] || is_over(x)) continue;
            copy_trial(x);
            x->trial[m] = false;
            MP_CHECK(try_trial(x, &now, &is_taken, err));
            for (int k = 0; k < x->n_options && !is_taken && !is_over(x); k++) {
                if (x->chosen[x->option[k]]) continue;
                copy_trial(x);
                x->trial[m] = false;
                put(x, x->trial, x->option[k]);
                MP_CHECK(try_trial(x, &now, &is_taken, err));
            }
            again |= is_taken;
        }
    }
    return MP_OK;
}

/* ---- classes: the modules whose names have the same pattern, such as "layers.*.attn" ---- */

/* Returns "layers.#.attn" for "layers.11.attn". */
static char *pattern_of(mp_pool *pool, const char *name)
{
    char *text = mp_pool_text(pool, name, strlen(name)), *to = text;
    for (const char *at = name; text && *at; at++) {
        if (isdigit((unsigned char)*at) && to > text && to[-1] == '#') continue;
        *to++ = *at;
        if (isdigit((unsigned char)*at)) to[-1] = '#';
    }
    if (text) *to = '\0';
    return text;
}

/* Sets x->trial to the options of the class with index `which`. */
static void set_class(finder *x, const int *class_of, int which)
{
    memset(x->trial, 0, (size_t)x->modules->n * sizeof *x->trial);
    for (int k = 0; k < x->n_options; k++)
        if (class_of[k] == which) put(x, x->trial, x->option[k]);
}

/* Improves the best sets of the classes (modules with one name pattern), one set after the other. */
static mp_status thin_classes(finder *x, const int *class_of, verdict *verdicts, int n_classes, mp_error *err)
{
    for (int start = 0; start < MODULES_STARTS && start < n_classes && !is_over(x); start++) {
        int best = 0;
        for (int c = 1; c < n_classes; c++)
            if (is_better(&verdicts[c], &verdicts[best])) best = c;
        set_class(x, class_of, best);
        take_trial(x);
        verdicts[best] = (verdict){1e300, INT64_MAX, INT64_MAX};
        x->work = mp_search_moves(x->search) / (MODULES_STARTS + 2);
        MP_CHECK(grow(x, err));
        MP_CHECK(thin(x, err));
    }
    return MP_OK;
}

static mp_status try_classes(finder *x, mp_error *err)
{
    int n_classes = 0;
    MP_OWNED int *class_of = mp_alloc((size_t)x->n_options, sizeof *class_of);
    MP_OWNED verdict *verdicts = mp_alloc((size_t)x->n_options, sizeof *verdicts);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_names_free) mp_names *names = mp_names_new();
    MP_ENSURE(class_of && verdicts && pool && names, err, MP_NOMEM, "out of memory");
    for (int k = 0; k < x->n_options; k++) {
        const char *pattern = pattern_of(pool, x->modules->modules[x->option[k]].name);
        MP_ENSURE(pattern, err, MP_NOMEM, "out of memory");
        class_of[k] = mp_names_find(names, pattern);
        if (class_of[k] >= 0) continue;
        MP_ENSURE(mp_names_set(names, pattern, class_of[k] = n_classes++), err, MP_NOMEM, "out of memory");
    }
    for (int c = 0; c < n_classes && !mp_search_stopped(x->search); c++) {
        set_class(x, class_of, c);
        MP_CHECK(judge(x, x->trial, &verdicts[c], err));
    }
    return thin_classes(x, class_of, verdicts, n_classes, err);
}

/* If no set of modules fits the budget, searches for the set with the smallest peak. It sets the budget to slightly below the
 * smallest peak so far, and improves the set again. This is repeated until the peak no longer falls. */
static mp_status shrink(finder *x, mp_error *err)
{
    for (int64_t before = INT64_MAX;
         mp_search_best_ticks(x->search) == INT64_MAX && x->smallest_bytes < before && !is_over(x);) {
        before = x->smallest_bytes;
        x->budget_bytes = before - before / 32;
        memset(x->chosen, 0, (size_t)x->modules->n * sizeof *x->chosen);
        MP_CHECK(grow(x, err));
        MP_CHECK(thin(x, err));
    }
    return MP_OK;
}

static mp_status find(finder *x, mp_error *err)
{
    const int64_t moves = mp_search_moves(x->search);
    bool are_few = false;
    x->work = INT64_MAX;
    MP_CHECK(count_sets(x, (double)moves, &are_few, err));
    if (are_few) {
        MP_CHECK(try_all(x, 0, err));
        return MP_OK;
    }
    x->work = 2 * moves / (MODULES_STARTS + 2);
    MP_CHECK(grow(x, err));
    MP_CHECK(thin(x, err));
    MP_CHECK(try_classes(x, err));
    x->work = 2 * moves;
    return shrink(x, err);
}

static mp_status run_modules(mp_search *search, mp_error *err)
{
    MP_OWNED_BY(mp_modules_free) mp_modules *modules = NULL;
    const mp_request *request = mp_search_request(search);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    finder x = {.search = search, .budget_bytes = request->budget_bytes, .smallest_bytes = INT64_MAX};
    MP_CHECK(mp_modules_new(request->graph, &modules, err));
    x.modules = modules;
    const size_t n = (size_t)x.modules->n;
    MP_ENSURE(n > 0, err, MP_NOT_APPLICABLE, "the operators of %s belong to no module: their names contain no slashes",
              request->graph->name);
    x.chosen = mp_pool_alloc(pool, n, sizeof *x.chosen);
    x.trial = mp_pool_alloc(pool, n, sizeof *x.trial);
    x.option = mp_pool_alloc(pool, n, sizeof *x.option);
    x.gain = mp_pool_alloc(pool, n, sizeof *x.gain);
    x.seen_in = mp_pool_alloc(pool, n, sizeof *x.seen_in);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory");
    for (int m = 0; m < x.modules->n; m++)
        if (!x.modules->modules[m].is_split) x.option[x.n_options++] = m;
    return find(&x, err);
}

const mp_solver mp_modules_solver = {.name = "modules",
                                     .summary = "the modules to wrap in torch.utils.checkpoint",
                                     .source = "",
                                     .run = run_modules,
                                     .monotone = false,
                                     .chooses_algorithms = false,
                                     .wants_phases = true};
