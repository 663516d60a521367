/* share_lockstep.c - two jobs in lock-step: both repeat their steps in the same period, with a fixed offset in time. Finds the
 * offset with the lowest common peak of memory. */
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "memplan/makespan.h"
#include "memplan/share.h"

/* ---- profiles ---- */

/* Halves the number of levels of a memory profile (intervals of constant bytes). Two neighbouring levels become one level, with
 * the bytes of the larger level. */
static void coarsen(mp_share_profile *p)
{
    size_t n = 0;
    for (size_t k = 0; k < p->n; k += 2) {
        mp_share_level one = p->levels[k];
        if (k + 1 < p->n) {
            const mp_share_level next = p->levels[k + 1];
            one.ticks += next.ticks;
            if (next.bytes > one.bytes) one.bytes = next.bytes;
        }
        p->levels[n++] = one;
    }
    p->n = n;
}

/* Appends a level (an interval of constant bytes) to a memory profile. A level of zero ticks is not appended. Instead, the next
 * level gets at least its bytes. *raised holds the bytes of such levels until the next level is appended. */
static void append(mp_share_profile *p, int64_t ticks, int64_t bytes, int64_t *raised)
{
    if (*raised > bytes) bytes = *raised;
    mp_share_level *last = p->n ? &p->levels[p->n - 1] : NULL;
    *raised = ticks ? 0 : bytes;
    if (!ticks) return;
    if (last && last->bytes == bytes)
        last->ticks += ticks;
    else
        p->levels[p->n++] = (mp_share_level){ticks, bytes};
}

/* Computes the time in ticks at which each step begins, and the time at which the last step ends. */
static mp_status starts_of(const mp_graph *graph, const mp_plan *plan, double unit_seconds, int64_t *starts, mp_error *err)
{
    const double scale = unit_seconds > 0 ? graph->tick_seconds / unit_seconds : 1, MOST = 0x1p62;
    int64_t makespan;
    starts[0] = 0;
    MP_CHECK(mp_makespan(graph, plan->steps, plan->n_steps, starts + 1, &makespan, err));
    MP_ENSURE((double)makespan * scale < MOST, err, MP_LIMIT, "a step of %s takes too long", graph->name);
    for (size_t t = 1; t <= plan->n_steps; t++) {
        const int64_t end = scale == 1 ? starts[t] : (int64_t)((double)starts[t] * scale);
        starts[t] = end > starts[t - 1] ? end : starts[t - 1];
    }
    return MP_OK;
}

mp_status mp_share_profile_of(const mp_graph *graph, const mp_plan *plan, double unit_seconds, mp_share_profile *out,
                              mp_error *err)
{
    int64_t raised = 0;
    MP_CLEARED_BY(mp_share_profile_free) mp_share_profile p = {0};
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED int64_t *starts = mp_alloc(plan->n_steps + 1, sizeof *starts);
    p.levels = mp_alloc(plan->n_steps + 1, sizeof *p.levels);
    MP_ENSURE(starts && p.levels, err, MP_NOMEM, "out of memory for %zu steps", plan->n_steps);
    MP_CHECK(mp_timeline_build(graph, plan->steps, plan->n_steps, &timeline, err));
    MP_CHECK(starts_of(graph, plan, unit_seconds, starts, err));
    for (size_t t = 0; t < plan->n_steps; t++)
        append(&p, starts[t + 1] - starts[t], timeline->static_bytes + timeline->live_bytes[t], &raised);
    if (p.n && raised > p.levels[p.n - 1].bytes) p.levels[p.n - 1].bytes = raised;
    if (!p.n) p.levels[p.n++] = (mp_share_level){1, timeline->peak_bytes};
    while (p.n > MP_SHARE_LEVELS) coarsen(&p);
    *out = p;
    p = (mp_share_profile){0};
    return MP_OK;
}

void mp_share_profile_free(mp_share_profile *profile)
{
    mp_free(profile->levels);
    *profile = (mp_share_profile){0};
}

/* ---- offsets ---- */

/* A range [begin, end) of offsets in ticks between the steps of the two jobs. With such an offset, a certain level of the first
 * job's memory profile overlaps in time with a certain level of the second job's. `bytes` is the sum of the two levels. */
typedef struct arc {
    int64_t begin, end, bytes;
} arc;

static int by_begin(const void *a, const void *b)
{
    const arc *p = a, *q = b;
    return (p->begin > q->begin) - (p->begin < q->begin);
}

static int64_t period_of(const mp_share_profile *p)
{
    int64_t sum = 0;
    for (size_t k = 0; k < p->n; k++) sum += p->levels[k].ticks;
    return sum;
}

/* Finds the smallest and the largest bytes of any level of a memory profile. */
static void extremes_of(const mp_share_profile *p, int64_t *least, int64_t *most)
{
    *least = *most = p->levels[0].bytes;
    for (size_t k = 1; k < p->n; k++) {
        if (p->levels[k].bytes < *least) *least = p->levels[k].bytes;
        if (p->levels[k].bytes > *most) *most = p->levels[k].bytes;
    }
}

/* Appends a range of offsets. Offsets are taken modulo `period`, so a range that crosses the end of the period is split in
 * two. */
static size_t put_arc(arc *arcs, size_t n, int64_t begin, int64_t length, int64_t period, int64_t bytes)
{
    begin = ((begin % period) + period) % period;
    if (length > period) length = period;
    const int64_t end = begin + length;
    arcs[n++] = (arc){begin, end < period ? end : period, bytes};
    if (end > period) arcs[n++] = (arc){0, end - period, bytes};
    return n;
}

/* Lists, for each pair of levels, one from each job's memory profile, the range of offsets in time with which the two overlap.
 * The ranges are sorted by begin. */
static size_t list_arcs(const mp_share_profile *first, const mp_share_profile *second, int64_t period, arc *arcs)
{
    size_t n = 0;
    int64_t at = 0;
    for (size_t i = 0; i < first->n; i++) {
        const mp_share_level a = first->levels[i];
        int64_t to = 0;
        for (size_t j = 0; j < second->n; j++) {
            const mp_share_level b = second->levels[j];
            n = put_arc(arcs, n, at - to - b.ticks + 1, a.ticks + b.ticks - 1, period, a.bytes + b.bytes);
            to += b.ticks;
        }
        at += a.ticks;
    }
    qsort(arcs, n, sizeof *arcs, by_begin);
    return n;
}

/* Returns the smallest offset in ticks with which no two overlapping levels exceed the limit together; `period`: there is
 * none. */
static int64_t offset_within(const arc *arcs, size_t n, int64_t limit_bytes)
{
    int64_t reached = 0;
    for (size_t k = 0; k < n && arcs[k].begin <= reached; k++)
        if (arcs[k].bytes > limit_bytes && arcs[k].end > reached) reached = arcs[k].end;
    return reached;
}

mp_status mp_share_offset_of(const mp_share_profile *first, const mp_share_profile *second, mp_share_offset *out, mp_error *err)
{
    const mp_share_profile *const both[] = {first, second};
    int64_t least[2], most[2];
    for (int j = 0; j < 2; j++) {
        for (size_t k = 0; k < both[j]->n; k++)
            MP_ENSURE(both[j]->levels[k].ticks > 0, err, MP_INVALID, "level %zu of a profile has no ticks", k);
        MP_ENSURE(both[j]->n, err, MP_INVALID, "a profile has no levels");
        extremes_of(both[j], &least[j], &most[j]);
    }
    const int64_t period = period_of(first);
    MP_ENSURE(period == period_of(second), err, MP_INVALID, "the profiles have different lengths");
    MP_ENSURE(second->n <= MP_SHARE_MOST_SUMS / first->n, err, MP_LIMIT, "the profiles have too many levels");
    MP_OWNED arc *arcs = mp_alloc(2 * first->n * second->n, sizeof *arcs);
    MP_ENSURE(arcs, err, MP_NOMEM, "out of memory for %zu pairs of levels", first->n * second->n);
    const size_t n = list_arcs(first, second, period, arcs);
    const int64_t bound = most[0] + least[1] > most[1] + least[0] ? most[0] + least[1] : most[1] + least[0];
    int64_t low = bound, high = most[0] + most[1];
    while (low < high) {
        const int64_t limit = low + (high - low) / 2;
        if (offset_within(arcs, n, limit) < period)
            high = limit;
        else
            low = limit + 1;
    }
    *out = (mp_share_offset){.ticks = offset_within(arcs, n, high), .peak_bytes = high, .bound_bytes = bound};
    return MP_OK;
}

/* ---- two jobs combined into one job ---- */

typedef struct pair {
    mp_share_option option;
    size_t of[2];
    mp_share_offset offset;
} pair;

static int by_option(const void *a, const void *b)
{
    const mp_share_option *p = &((const pair *)a)->option, *q = &((const pair *)b)->option;
    if (p->bytes != q->bytes) return p->bytes < q->bytes ? -1 : 1;
    return (p->ticks > q->ticks) - (p->ticks < q->ticks);
}

/* Converts pairs of options, one option per job, to a step function of ticks over bytes. Pairs that need at least as many bytes
 * and ticks as another pair are removed. */
static mp_status take_pairs(pair *pairs, size_t n, mp_share_lockstep *out, mp_error *err)
{
    MP_CLEARED_BY(mp_share_lockstep_free)
    mp_share_lockstep l = {.options = mp_alloc(n, sizeof *l.options),
                           .pairs = mp_alloc(n, sizeof *l.pairs),
                           .offsets = mp_alloc(n, sizeof *l.offsets)};
    MP_ENSURE(l.options && l.pairs && l.offsets, err, MP_NOMEM, "out of memory for %zu pairs", n);
    qsort(pairs, n, sizeof *pairs, by_option);
    for (size_t k = 0; k < n; k++) {
        if (l.n && pairs[k].option.ticks >= l.options[l.n - 1].ticks) continue;
        l.options[l.n] = pairs[k].option;
        memcpy(l.pairs[l.n], pairs[k].of, sizeof pairs[k].of);
        l.offsets[l.n++] = pairs[k].offset;
    }
    *out = l;
    l = (mp_share_lockstep){0};
    return MP_OK;
}

/* Copies a memory profile, and appends an idle time so that the profile lasts for the whole common period. */
static mp_status padded(const mp_share_profile *p, int64_t static_bytes, int64_t period, mp_share_profile *out, mp_error *err)
{
    const int64_t wait = period - period_of(p);
    *out = (mp_share_profile){.n = p->n + (wait > 0), .levels = mp_alloc(p->n + 1, sizeof *out->levels)};
    MP_ENSURE(out->levels, err, MP_NOMEM, "out of memory for %zu levels", p->n);
    memcpy(out->levels, p->levels, p->n * sizeof *p->levels);
    if (wait > 0) out->levels[p->n] = (mp_share_level){wait, static_bytes};
    return MP_OK;
}

static mp_status find_offset(const mp_share_job jobs[2], const mp_share_profile *a, const mp_share_profile *b,
                             mp_share_offset *out, mp_error *err)
{
    const int64_t x = period_of(a), y = period_of(b), period = x > y ? x : y;
    MP_CLEARED_BY(mp_share_profile_free) mp_share_profile first = {0};
    MP_CLEARED_BY(mp_share_profile_free) mp_share_profile second = {0};
    MP_CHECK(padded(a, jobs[0].static_bytes, period, &first, err));
    MP_CHECK(padded(b, jobs[1].static_bytes, period, &second, err));
    return mp_share_offset_of(&first, &second, out, err);
}

/* Computes bytes and ticks of all pairs of options, one option per job. Without memory profiles, the result is a lower
 * bound. */
static mp_status pair_jobs(const mp_share_job jobs[2], const mp_share_profile *const *profiles, mp_share_goal goal,
                           mp_share_lockstep *out, mp_error *err)
{
    size_t n = 0;
    MP_ENSURE(jobs[0].n && jobs[1].n && jobs[1].n <= MP_SHARE_MOST_SUMS / jobs[0].n, err, MP_LIMIT,
              "the jobs have no options, or too many");
    MP_OWNED pair *pairs = mp_alloc(jobs[0].n * jobs[1].n, sizeof *pairs);
    MP_ENSURE(pairs, err, MP_NOMEM, "out of memory for %zu pairs", jobs[0].n * jobs[1].n);
    for (size_t i = 0; i < jobs[0].n; i++)
        for (size_t k = 0; k < jobs[1].n; k++) {
            const mp_share_option a = jobs[0].options[i], b = jobs[1].options[k];
            pair *p = &pairs[n++];
            *p = (pair){.of = {i, k}};
            if (profiles) {
                MP_CHECK(find_offset(jobs, &profiles[0][i], &profiles[1][k], &p->offset, err));
                p->option.bytes = p->offset.peak_bytes;
            } else {
                const int64_t x = a.bytes + jobs[1].static_bytes, y = b.bytes + jobs[0].static_bytes;
                p->option.bytes = x > y ? x : y;
            }
            p->option.ticks = a.ticks > b.ticks ? a.ticks : b.ticks;
            if (goal == MP_SHARE_TOTAL)
                MP_ENSURE(mp_add(a.ticks, b.ticks, &p->option.ticks), err, MP_LIMIT, "the jobs take too long together");
        }
    return take_pairs(pairs, n, out, err);
}

mp_status mp_share_lockstep_of(const mp_share_job jobs[2], const mp_share_profile *const profiles[2], mp_share_goal goal,
                               mp_share_lockstep *out, mp_error *err)
{
    return pair_jobs(jobs, profiles, goal, out, err);
}

mp_status mp_share_lockstep_bound(const mp_share_job jobs[2], mp_share_goal goal, mp_share_lockstep *out, mp_error *err)
{
    return pair_jobs(jobs, NULL, goal, out, err);
}

void mp_share_lockstep_free(mp_share_lockstep *lockstep)
{
    mp_free(lockstep->options);
    mp_free(lockstep->pairs);
    mp_free(lockstep->offsets);
    *lockstep = (mp_share_lockstep){0};
}

/* ---- one arena ---- */

/* Assigns offsets in one arena to the two plans of a pair. *bytes includes the static bytes of both jobs. */
static mp_status lay_out(const mp_graph *const graphs[2], const mp_plan *const plans[2], double unit_seconds, int64_t delay,
                         int64_t capacity_bytes, mp_arena_pair *out, int64_t *bytes, mp_error *err)
{
    MP_OWNED int64_t *first = mp_alloc(plans[0]->n_steps + 1, sizeof *first);
    MP_OWNED int64_t *second = mp_alloc(plans[1]->n_steps + 1, sizeof *second);
    MP_ENSURE(first && second, err, MP_NOMEM, "out of memory for %zu steps", plans[0]->n_steps);
    MP_CHECK(starts_of(graphs[0], plans[0], unit_seconds, first, err));
    MP_CHECK(starts_of(graphs[1], plans[1], unit_seconds, second, err));
    const int64_t x = first[plans[0]->n_steps], y = second[plans[1]->n_steps], period = x > y ? x : y;
    const int64_t static_bytes = plans[0]->static_bytes + plans[1]->static_bytes, left = capacity_bytes - static_bytes;
    const mp_arena_half halves[] = {{graphs[0], plans[0], first}, {graphs[1], plans[1], second}};
    MP_CHECK(mp_arena_layout_pair(halves, period > 0 ? period : 1, delay, left > 0 ? left : 0, out, err));
    *bytes = static_bytes + out->arena_bytes;
    return MP_OK;
}

static void take_out(mp_share_lockstep *l, size_t k)
{
    const size_t n = --l->n - k;
    memmove(&l->options[k], &l->options[k + 1], n * sizeof *l->options);
    memmove(&l->pairs[k], &l->pairs[k + 1], n * sizeof *l->pairs);
    memmove(&l->offsets[k], &l->offsets[k + 1], n * sizeof *l->offsets);
}

mp_status mp_share_lockstep_place(const mp_graph *const graphs[2], const mp_share_plans *const plans[2], double unit_seconds,
                                  int64_t capacity_bytes, mp_share_lockstep *l, mp_arena_pair *out, mp_error *err)
{
    MP_CLEARED_BY(mp_arena_pair_free) mp_arena_pair found = {0};
    size_t k = l->n;
    while (k && l->options[k - 1].bytes > capacity_bytes) k--;
    while (k--) {
        int64_t bytes = 0;
        const mp_plan *const both[] = {plans[0]->plans[l->pairs[k][0]], plans[1]->plans[l->pairs[k][1]]};
        MP_CHECK(lay_out(graphs, both, unit_seconds, l->offsets[k].ticks, capacity_bytes, &found, &bytes, err));
        if (bytes <= capacity_bytes || !k) l->options[k].bytes = bytes;
        if (bytes <= capacity_bytes) break;
        mp_arena_pair_free(&found);
        if (k)
            take_out(l, k);
        else
            l->n = 1;
    }
    *out = found;
    found = (mp_arena_pair){0};
    return MP_OK;
}
