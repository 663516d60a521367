/* share.c - divides a memory capacity among jobs in the best way. The ticks of each job are a step function of its bytes; these
 * functions are merged one after the other. */
#include "memplan/studies/share.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"

/* A choice of one option for each of the first jobs. A choice is in the frontier if no other choice needs at most as many bytes
 * and ticks. */
typedef struct point {
    int64_t bytes, ticks;
    uint32_t before,
        /* before: index of the point (choice) for all jobs before this job; option: index of this job's option; both are unused
         * if jobs run by turns */
        option;
} point;

/* The best choices of options for the first jobs, by ascending bytes and descending ticks. They form the least ticks as a step
 * function of the capacity. */
typedef struct frontier {
    size_t n;
    point *points;
} frontier;

typedef struct merger {
    const mp_share_request *request;
    size_t n_jobs; /* number of jobs; frontiers[k] contains the choices for jobs 0 to k */
    frontier *frontiers;
} merger;

static void clear(merger *m)
{
    for (size_t k = 0; m->frontiers && k < m->n_jobs; k++) mp_free(m->frontiers[k].points);
    mp_free(m->frontiers);
}

static int by_bytes(const void *a, const void *b)
{
    const point *p = a, *q = b;
    if (p->bytes != q->bytes) return p->bytes < q->bytes ? -1 : 1;
    if (p->ticks != q->ticks) return p->ticks < q->ticks ? -1 : 1;
    if (p->before != q->before) return p->before < q->before ? -1 : 1;
    return (p->option > q->option) - (p->option < q->option);
}

/* Sorts the points, and removes points that need at least as many bytes and ticks as another point. */
static void keep_best(frontier *f)
{
    size_t n = 0;
    qsort(f->points, f->n, sizeof *f->points, by_bytes);
    for (size_t k = 0; k < f->n; k++)
        if (!n || f->points[k].ticks < f->points[n - 1].ticks) f->points[n++] = f->points[k];
    f->n = n;
}

static mp_status check(const mp_share_request *r, mp_error *err)
{
    MP_ENSURE(r->n_jobs && r->capacity_bytes >= 0, err, MP_INVALID,
              "a split of memory needs at least one job and a capacity of 0 or more");
    for (size_t i = 0; i < r->n_jobs; i++) {
        const mp_share_job *job = &r->jobs[i];
        MP_ENSURE(job->n && job->n <= MP_SHARE_MOST_SUMS, err, MP_INVALID, "job %zu has %zu options, which is out of range",
                  i + 1, job->n);
        const mp_share_option *o = job->options;
        MP_ENSURE(job->static_bytes >= 0 && o[0].bytes >= job->static_bytes && o[job->n - 1].ticks >= 0, err, MP_INVALID,
                  "job %zu has an option with fewer than 0 bytes or ticks", i + 1);
        for (size_t k = 1; k < job->n; k++)
            MP_ENSURE(o[k].bytes > o[k - 1].bytes && o[k].ticks < o[k - 1].ticks, err, MP_INVALID,
                      "option %zu of job %zu must have more bytes and fewer ticks than the previous option", k + 1, i + 1);
    }
    return MP_OK;
}

static mp_status too_large(mp_error *err)
{
    return MP_FAIL(err, MP_LIMIT, "the sum of the bytes or ticks of the jobs does not fit in 63 bits");
}

/* ---- jobs that run at the same time: their bytes add up. Depending on the goal, the sum or the maximum of their ticks is
 * minimised ---- */

static mp_status merge(const mp_share_job *job, mp_share_goal goal, const frontier *before, frontier *out, mp_error *err)
{
    const point none = {0};
    const point *from = before ? before->points : &none;
    const size_t n_from = before ? before->n : 1;
    MP_ENSURE(n_from <= MP_SHARE_MOST_SUMS / job->n, err, MP_LIMIT, "the jobs have too many options: over %d sums to compare",
              MP_SHARE_MOST_SUMS);
    MP_ENSURE(out->points = mp_alloc(n_from * job->n, sizeof *out->points), err, MP_NOMEM, "out of memory for %zu sums",
              n_from * job->n);
    for (size_t i = 0; i < n_from; i++)
        for (size_t k = 0; k < job->n; k++) {
            const mp_share_option *o = &job->options[k];
            point *p = &out->points[out->n++];
            *p = (point){.before = (uint32_t)i, .option = (uint32_t)k};
            if (!mp_add(from[i].bytes, o->bytes, &p->bytes)) return too_large(err);
            if (goal == MP_SHARE_LONGEST)
                p->ticks = from[i].ticks > o->ticks ? from[i].ticks : o->ticks;
            else if (!mp_add(from[i].ticks, o->ticks, &p->ticks))
                return too_large(err);
        }
    keep_best(out);
    return MP_OK;
}

static mp_status merge_beside(merger *m, mp_error *err)
{
    for (size_t j = 0; j < m->n_jobs; j++)
        MP_CHECK(merge(&m->request->jobs[j], m->request->goal, j ? &m->frontiers[j - 1] : NULL, &m->frontiers[j], err));
    return MP_OK;
}

/* ---- jobs by turns: the jobs run one step each in rotation. While a job runs, it uses the fastest option that fits into the
 * memory besides the static bytes of all jobs ---- */

/* Returns the fastest option of a job that needs at most turn_bytes more than the job's static bytes; job->n: no option
 * does. */
static size_t option_within(const mp_share_job *job, int64_t turn_bytes)
{
    size_t k = job->n;
    while (k && job->options[k - 1].bytes - job->static_bytes > turn_bytes) k--;
    return k ? k - 1 : job->n;
}

/* Computes the point (choice of options) if a job may use turn_bytes besides the static bytes while it runs. *is_one is false
 * if some job has no option that fits. */
static mp_status point_of_turns(const mp_share_request *r, int64_t static_bytes, int64_t turn_bytes, point *out, bool *is_one,
                                mp_error *err)
{
    *out = (point){0};
    *is_one = true;
    if (!mp_add(static_bytes, turn_bytes, &out->bytes)) return too_large(err);
    for (size_t i = 0; i < r->n_jobs && *is_one; i++) {
        const size_t k = option_within(&r->jobs[i], turn_bytes);
        if (!(*is_one = k < r->jobs[i].n)) break;
        const int64_t ticks = r->jobs[i].options[k].ticks;
        if (r->goal == MP_SHARE_LONGEST)
            out->ticks = out->ticks > ticks ? out->ticks : ticks;
        else if (!mp_add(out->ticks, ticks, &out->ticks))
            return too_large(err);
    }
    return MP_OK;
}

static mp_status merge_turns(merger *m, mp_error *err)
{
    const mp_share_request *r = m->request;
    frontier *all = &m->frontiers[m->n_jobs - 1];
    int64_t static_bytes = 0;
    size_t n = 0;
    bool is_one;
    for (size_t i = 0; i < r->n_jobs; i++) {
        n += r->jobs[i].n;
        if (!mp_add(static_bytes, r->jobs[i].static_bytes, &static_bytes)) return too_large(err);
    }
    MP_ENSURE(all->points = mp_alloc(n, sizeof *all->points), err, MP_NOMEM, "out of memory for %zu sums", n);
    for (size_t i = 0; i < r->n_jobs; i++)
        for (size_t k = 0; k < r->jobs[i].n; k++) {
            const int64_t turn_bytes = r->jobs[i].options[k].bytes - r->jobs[i].static_bytes;
            MP_CHECK(point_of_turns(r, static_bytes, turn_bytes, &all->points[all->n], &is_one, err));
            all->n += is_one;
        }
    keep_best(all);
    return MP_OK;
}

/* ---- the split ---- */

/* Sets chosen[i] to the option of job i, for all jobs, in the choice that is point k of the last frontier. */
static void choose(const merger *m, size_t k, size_t *chosen)
{
    const mp_share_request *r = m->request;
    if (r->way == MP_SHARE_TURNS) {
        int64_t turn_bytes = m->frontiers[m->n_jobs - 1].points[k].bytes;
        for (size_t i = 0; i < r->n_jobs; i++) turn_bytes -= r->jobs[i].static_bytes;
        for (size_t i = 0; i < r->n_jobs; i++) chosen[i] = option_within(&r->jobs[i], turn_bytes);
        return;
    }
    for (size_t j = m->n_jobs; j-- > 0;) {
        const point *p = &m->frontiers[j].points[k];
        chosen[j] = p->option;
        k = p->before;
    }
}

/* True if point q is on or above the line through points p and r. */
static bool is_above(const point *p, const point *q, const point *r)
{
    return (__int128)(q->ticks - p->ticks) * (r->bytes - p->bytes) >= (__int128)(r->ticks - p->ticks) * (q->bytes - p->bytes);
}

/* Finds the price of memory at the capacity: the slope of the lower convex hull of the points, at its edge above the capacity.
 * The frontier is not changed. */
static mp_status find_price(const frontier *all, int64_t capacity_bytes, mp_share_split *out, mp_error *err)
{
    MP_OWNED point *hull = mp_alloc(all->n, sizeof *hull);
    MP_ENSURE(hull, err, MP_NOMEM, "out of memory for %zu sums", all->n);
    size_t n = 0, k = 0;
    for (size_t i = 0; i < all->n; i++) {
        while (n > 1 && is_above(&hull[n - 2], &hull[n - 1], &all->points[i])) n--;
        hull[n++] = all->points[i];
    }
    while (k + 1 < n && hull[k + 1].bytes <= capacity_bytes) k++;
    out->price_ticks = k + 1 < n ? hull[k].ticks - hull[k + 1].ticks : 0;
    out->price_bytes = k + 1 < n ? hull[k + 1].bytes - hull[k].bytes : 1;
    const __int128 paid = (__int128)out->price_ticks * (capacity_bytes - hull[k].bytes) / out->price_bytes;
    out->hull_ticks = hull[k].ticks - (k + 1 < n ? (int64_t)paid : 0);
    return MP_OK;
}

static mp_status split(const mp_share_request *request, mp_share_split *out, mp_error *err)
{
    MP_CLEARED_BY(clear) merger m = {.request = request, .n_jobs = request->n_jobs};
    size_t k = 0;
    MP_ENSURE(m.frontiers = mp_alloc(m.n_jobs, sizeof *m.frontiers), err, MP_NOMEM, "out of memory for %zu jobs", m.n_jobs);
    MP_CHECK(request->way == MP_SHARE_TURNS ? merge_turns(&m, err) : merge_beside(&m, err));
    const frontier *all = &m.frontiers[m.n_jobs - 1];
    out->least_bytes = all->points[0].bytes;
    if (out->least_bytes > request->capacity_bytes) return MP_OK;
    out->fits = true;
    while (k + 1 < all->n && all->points[k + 1].bytes <= request->capacity_bytes) k++;
    MP_ENSURE(out->chosen = mp_alloc(m.n_jobs, sizeof *out->chosen), err, MP_NOMEM, "out of memory for %zu jobs", m.n_jobs);
    choose(&m, k, out->chosen);
    out->bytes = all->points[k].bytes;
    out->ticks = all->points[k].ticks;
    out->next_bytes = k + 1 < all->n ? all->points[k + 1].bytes : -1;
    out->next_ticks = k + 1 < all->n ? all->points[k + 1].ticks : -1;
    return find_price(all, request->capacity_bytes, out, err);
}

/* Several splits may have the same longest job time. Of these, finds the split with the smallest sum of job times. */
static mp_status lower_total(const mp_share_request *request, mp_share_split *out, mp_error *err)
{
    MP_CLEARED_BY(mp_share_split_free) mp_share_split lower = {0};
    MP_OWNED mp_share_job *jobs = mp_alloc(request->n_jobs, sizeof *jobs);
    MP_ENSURE(jobs, err, MP_NOMEM, "out of memory for %zu jobs", request->n_jobs);
    mp_share_request total = *request;
    total.goal = MP_SHARE_TOTAL;
    total.jobs = jobs;
    memcpy(jobs, request->jobs, request->n_jobs * sizeof *jobs);
    for (size_t i = 0; i < request->n_jobs; i++)
        for (; jobs[i].options[0].ticks > out->ticks; jobs[i].n--) jobs[i].options++;
    MP_CHECK(split(&total, &lower, err));
    for (size_t i = 0; i < request->n_jobs; i++)
        out->chosen[i] = lower.chosen[i] + (size_t)(jobs[i].options - request->jobs[i].options);
    out->bytes = lower.bytes;
    return MP_OK;
}

mp_status mp_share_split_of(const mp_share_request *request, mp_share_split *out, mp_error *err)
{
    MP_CLEARED_BY(mp_share_split_free) mp_share_split found = {0};
    MP_CHECK(check(request, err));
    MP_CHECK(split(request, &found, err));
    if (found.fits && request->goal == MP_SHARE_LONGEST) MP_CHECK(lower_total(request, &found, err));
    *out = found;
    found = (mp_share_split){0};
    return MP_OK;
}

void mp_share_split_free(mp_share_split *split)
{
    mp_free(split->chosen);
    *split = (mp_share_split){0};
}

const char *mp_share_way_name(mp_share_way way)
{
    static const char *const names[MP_N_SHARE_WAYS] = {"beside", "turns"};
    return names[way];
}

const char *mp_share_goal_name(mp_share_goal goal)
{
    static const char *const names[MP_N_SHARE_GOALS] = {"total", "longest"};
    return names[goal];
}
