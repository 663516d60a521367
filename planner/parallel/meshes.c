/* meshes.c - lists all meshes of a number of devices with their choices of micro-batch size and schedule. Computes lower bounds
 * for them, and simulates those that may be among the best. */
#include "memplan/ranks/meshes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/names.h"
#include "planner/parallel/ranking.h"
#include "planner/parallel/stages.h"

MP_NAMED(verdict, "best", "slower", "bound", "floor", "over-memory", "refused")
MP_NAMED(mesh_judge, "blocks", "keep-all")

enum {
    BEST = 5,
    TP_MOST = 16,
    BATCHES = 8,
    SPREADS = 8,
    MOST_CHUNKS = 8,
    MERGES = 4
    /* BATCHES: largest number of micro-batch sizes that are tried. SPREADS: largest number of sizes of ep that are tried. All
     * sizes are powers of two */
};

/* The measured loads of a network for one split and one micro-batch size. The first five members are the key. */
typedef struct cached_load {
    bool is_apart; /* zero=3, and the request's shares_apart is set */
    bool data;     /* the mesh's `data` */
    int64_t tp;
    int log2_ep, log2_batch; /* log2_batch: of the samples per rank */
    /* the loads with 1, 2, 4, ... blocks merged into one; NULL: not measured yet, or the graph cannot be built */
    mp_load *loads[MERGES];
    bool is_refused;
} cached_load;

/* A mesh, and the seconds of its fastest choice. */
typedef struct mesh_time {
    mp_mesh mesh;
    double seconds;
} mesh_time;

typedef struct mesh_search {
    const mp_meshes_request *request;
    mp_meshes *found;
    size_t capacity;
    cached_load *cached;
    size_t n_cached, cached_capacity;
    int64_t most_ep;           /* largest size of ep that is tried; larger sizes do not divide the number of experts */
    mesh_time times[BEST * 4]; /* the fastest meshes so far, by ascending seconds */
    size_t n_times, n_best;
    mp_error *err;
} mesh_search;

/* Returns the number of ranks in a tp group among which the samples of a micro-batch are divided. */
static int64_t sharers(const mp_mesh *mesh)
{
    return mesh->data ? mesh->size[MP_DIM_TP] : 1;
}

static int log2_of(int64_t n)
{
    int k = 0;
    while (n > 1) {
        n /= 2;
        k++;
    }
    return k;
}

/* Returns the entry of the cache with this key. Adds an empty entry if there is none. NULL: out of memory. */
static cached_load *cache_entry(mesh_search *x, const cached_load *key)
{
    for (size_t k = 0; k < x->n_cached; k++) {
        const cached_load *c = &x->cached[k];
        if (c->is_apart == key->is_apart && c->data == key->data && c->tp == key->tp && c->log2_ep == key->log2_ep &&
            c->log2_batch == key->log2_batch)
            return &x->cached[k];
    }
    if (!mp_grow(&x->cached, &x->cached_capacity, x->n_cached + 1, sizeof *x->cached)) return NULL;
    x->cached[x->n_cached] = *key;
    return &x->cached[x->n_cached++];
}

/* Returns in *out the load per rank for a split and a micro-batch size; NULL: the graph cannot be built. The number of blocks
 * is halved `merge` times. `merge` is above 0 only if the mesh does not fit in memory otherwise. */
static mp_status load_at(mesh_search *x, const mp_mesh *mesh, int64_t batch, int merge, const mp_load **out)
{
    const int64_t tp = mesh->size[MP_DIM_TP];
    const int b = log2_of(batch / sharers(mesh)), e = log2_of(mesh->size[MP_DIM_EP]);
    *out = NULL;
    if (tp > TP_MOST || b >= BATCHES || e >= SPREADS) return MP_OK;
    const cached_load key = {
        .is_apart = x->request->shares_apart && mesh->zero == 3, .data = mesh->data, .tp = tp, .log2_ep = e, .log2_batch = b};
    cached_load *at = cache_entry(x, &key);
    MP_ENSURE(at, x->err, MP_NOMEM, "no memory for the loads of %zu splits", x->n_cached + 1);
    if (at->is_refused) return MP_OK;
    if (!at->loads[merge]) {
        MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
        mp_error refused = {0};
        const mp_status st = x->request->graph(x->request->data, mesh, batch, &graph, &refused);
        const bool is_over = st == MP_UNSUPPORTED || st == MP_INVALID;
        at->is_refused = is_over && (tp > 1 || batch > 1 || e > 0);
        if (at->is_refused) return MP_OK;
        if (st != MP_OK && x->err) *x->err = refused;
        MP_CHECK(st);
        for (int k = merge; k < (merge ? MERGES : 1); k++) MP_CHECK(mp_load_of(graph, 1 << k, &at->loads[k], x->err));
    }
    *out = at->loads[merge];
    return MP_OK;
}

static mp_step_request step_of(const mesh_search *x, const mp_mesh_choice *c, const mp_load *load, mp_ranks *ranks)
{
    *ranks = x->request->ranks;
    ranks->mesh = c->mesh;
    return (mp_step_request){.load = load,
                             .ranks = ranks,
                             .schedule = c->schedule,
                             .n_chunks = c->n_chunks,
                             .n_micro_batches = c->n_micro_batches,
                             .memory_bytes = x->request->memory_bytes,
                             .host = x->request->host};
}

/* Adds a choice to the list: a mesh, a micro-batch size and a schedule. Omits it if the global batch is not divisible or the
 * network has too few blocks. */
static mp_status add_choice(mesh_search *x, const mp_mesh *mesh, int64_t batch, mp_schedule schedule, int64_t n_chunks)
{
    mp_ranks ranks;
    const mp_load *load;
    const int64_t copies = mesh->size[MP_DIM_DP] * mesh->size[MP_DIM_SHARD], per_step = copies * batch;
    if (x->request->global_batch % per_step) return MP_OK;
    MP_CHECK(load_at(x, mesh, batch, 0, &load));
    if (!load || mesh->size[MP_DIM_PP] * n_chunks > load->n_blocks) return MP_OK;
    const mp_pipeline_shape shape = {.schedule = schedule,
                                     .n_ranks = (int)mesh->size[MP_DIM_PP],
                                     .n_chunks = (int)n_chunks,
                                     .n_micro_batches = x->request->global_batch / per_step};
    if (mp_schedule_check(&shape, NULL) != MP_OK) return MP_OK;
    MP_ENSURE(mp_grow(&x->found->choices, &x->capacity, x->found->n + 1, sizeof *x->found->choices), x->err, MP_NOMEM,
              "no memory for %zu meshes", x->found->n + 1);
    mp_mesh_choice *c = &x->found->choices[x->found->n++];
    *c = (mp_mesh_choice){.mesh = *mesh,
                          .micro_batch = batch,
                          .n_micro_batches = shape.n_micro_batches,
                          .schedule = schedule,
                          .n_chunks = n_chunks};
    const mp_step_request step = step_of(x, c, load, &ranks);
    c->bound_seconds = mp_step_bound(&step);
    c->floor_bytes = mp_step_floor(&step);
    return MP_OK;
}

/* Adds the choices of a mesh and a micro-batch size, one per schedule. The number of chunks is doubled as long as every stage
 * has a block. */
static mp_status add_schedules(mesh_search *x, const mp_mesh *mesh, int64_t batch)
{
    const mp_meshes_request *r = x->request;
    if (r->is_scheduled && mesh->size[MP_DIM_PP] > 1) return add_choice(x, mesh, batch, r->schedule, r->n_chunks);
    MP_CHECK(add_choice(x, mesh, batch, MP_SCHEDULE_1F1B, 1));
    if (mesh->size[MP_DIM_PP] == 1) return MP_OK;
    MP_CHECK(add_choice(x, mesh, batch, MP_SCHEDULE_GPIPE, 1));
    MP_CHECK(add_choice(x, mesh, batch, MP_SCHEDULE_ZB_H1, 1));
    for (int64_t chunks = 2; chunks <= MOST_CHUNKS; chunks *= 2)
        MP_CHECK(add_choice(x, mesh, batch, MP_SCHEDULE_INTERLEAVED, chunks));
    return MP_OK;
}

static bool permits(const mesh_search *x, mp_dim dim, int64_t n)
{
    return !x->request->fixed.size[dim] || x->request->fixed.size[dim] == n;
}

/* If the network has experts, adds the choices for all sizes of ep: 1, 2, 4, ... The ranks of ep are ranks of dp and shard. */
static mp_status add_spreads(mesh_search *x, mp_mesh mesh, int64_t batch)
{
    const int64_t shard = mesh.size[MP_DIM_SHARD], copies = mesh.size[MP_DIM_DP] * shard,
                  given = x->request->fixed.size[MP_DIM_EP];
    for (int64_t ep = given ? given : 1; ep <= copies && ep <= x->most_ep && !(mesh.data && ep > 1); ep *= 2) {
        const mp_load *load;
        if (copies % ep || (shard % ep && ep % shard) || x->request->global_batch % (copies * batch)) continue;
        mesh.size[MP_DIM_EP] = ep;
        MP_CHECK(load_at(x, &mesh, batch, 0, &load));
        if (!load && ep == 1) return MP_OK;
        if (!load) x->most_ep = ep / 2;
        if (load) MP_CHECK(add_schedules(x, &mesh, batch));
        if (given) return MP_OK;
    }
    return MP_OK;
}

/* Adds the choices for all ways to divide `copies` ranks between dp and shard, with every ZeRO stage, micro-batch size and
 * schedule. */
static mp_status add_copies(mesh_search *x, mp_mesh mesh, int64_t copies)
{
    for (int64_t shard = 1; shard <= copies; shard++) {
        if (copies % shard) continue;
        mesh.size[MP_DIM_SHARD] = shard;
        mesh.size[MP_DIM_DP] = copies / shard;
        if (!permits(x, MP_DIM_SHARD, shard) || !permits(x, MP_DIM_DP, copies / shard)) continue;
        for (int zero = shard > 1 ? 1 : 0; zero <= (shard > 1 ? 3 : 0); zero++) {
            if (x->request->fixed.zero && x->request->fixed.zero != zero) continue;
            mesh.zero = zero;
            const int64_t given = x->request->micro_batch;
            for (int64_t batch = given ? given : sharers(&mesh), k = 0;
                 k < (given ? 1 : BATCHES) && batch <= x->request->global_batch; k++, batch *= 2)
                MP_CHECK(add_spreads(x, mesh, batch));
        }
    }
    return MP_OK;
}

static mp_status list_all(mesh_search *x)
{
    const mp_meshes_request *r = x->request;
    const int64_t most_tp = r->most_tp ? r->most_tp : r->ranks.network.inside.devices;
    for (int64_t tp = 1; tp <= r->devices && tp <= TP_MOST; tp++) {
        if (r->devices % tp || !permits(x, MP_DIM_TP, tp) || (tp > most_tp && !r->fixed.size[MP_DIM_TP])) continue;
        for (int64_t pp = 1; pp <= r->devices / tp; pp++) {
            if (r->devices / tp % pp || !permits(x, MP_DIM_PP, pp)) continue;
            mp_mesh mesh = {.size = {1, 1, 1, 1, 1}, .sequence = r->ranks.mesh.sequence, .scatter = r->ranks.mesh.scatter};
            mesh.size[MP_DIM_TP] = tp;
            mesh.size[MP_DIM_PP] = pp;
            if (!r->fixed.data) MP_CHECK(add_copies(x, mesh, r->devices / tp / pp));
            mesh.data = true;
            if (tp > 1 && pp == 1) MP_CHECK(add_copies(x, mesh, r->devices / tp));
        }
    }
    return MP_OK;
}

/* Compares two choices by the lower bound on their step time. If the bounds are equal, compares the dimensions, so that the
 * order is deterministic. */
static int by_bound(const void *a, const void *b)
{
    const mp_mesh_choice *x = a, *y = b;
    if (x->bound_seconds != y->bound_seconds) return x->bound_seconds < y->bound_seconds ? -1 : 1;
    for (int d = 0; d < MP_N_DIMS; d++)
        if (x->mesh.size[d] != y->mesh.size[d]) return x->mesh.size[d] < y->mesh.size[d] ? -1 : 1;
    if (x->mesh.data != y->mesh.data) return y->mesh.data ? -1 : 1;
    if (x->mesh.zero != y->mesh.zero) return x->mesh.zero < y->mesh.zero ? -1 : 1;
    if (x->micro_batch != y->micro_batch) return x->micro_batch < y->micro_batch ? -1 : 1;
    if (x->schedule != y->schedule) return x->schedule < y->schedule ? -1 : 1;
    return (x->n_chunks > y->n_chunks) - (x->n_chunks < y->n_chunks);
}

static int by_verdict(const void *a, const void *b)
{
    const mp_mesh_choice *x = a, *y = b;
    if (x->verdict != y->verdict) return x->verdict < y->verdict ? -1 : 1;
    if (x->verdict > MP_VERDICT_SLOWER) return by_bound(a, b);
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    return by_bound(a, b);
}

/* Compares two choices like by_verdict, but puts judged choices before other simulated choices. */
static int by_judgement(const void *a, const void *b)
{
    const mp_mesh_choice *x = a, *y = b;
    const bool differ = x->verdict == y->verdict && x->verdict == MP_VERDICT_SLOWER && x->is_judged != y->is_judged;
    return differ ? (x->is_judged ? -1 : 1) : by_verdict(a, b);
}

/* If a choice is the fastest of its mesh so far, inserts its seconds into the sorted list of the fastest meshes. */
static void note_time(mesh_search *x, const mp_mesh_choice *c)
{
    size_t k = 0;
    while (k < x->n_times && !mp_mesh_is_same(&x->times[k].mesh, &c->mesh)) k++;
    const bool is_new = k == x->n_times, is_full = x->n_times == x->n_best;
    if (is_new && is_full) k--; /* the list is full, so the slowest mesh of the list is removed */
    if (is_new && !is_full)
        x->n_times++;
    else if (c->seconds >= x->times[k].seconds)
        return;
    for (; k > 0 && x->times[k - 1].seconds > c->seconds; k--) x->times[k] = x->times[k - 1];
    x->times[k] = (mesh_time){c->mesh, c->seconds};
}

/* Returns the time in seconds that a further choice must undercut to be among the best. */
static double limit_of(const mesh_search *x)
{
    if (x->n_times < x->n_best) return INFINITY;
    const double last = x->times[x->n_best - 1].seconds, alike = (1 + x->request->alike) * x->times[0].seconds;
    return last > alike ? last : alike;
}

/* True if merging blocks may help a choice that exceeds the memory with every recomputation option. That is only possible if
 * every stage fits without its activations. */
static bool may_merge(const mesh_search *x, const mp_mesh_choice *c)
{
    for (size_t k = 0; k < c->n_stages; k++)
        if (c->stages[k].peak_bytes - c->stages[k].activation_bytes >= x->request->memory_bytes) return false;
    return true;
}

/* Simulates a choice by the block model. Omits the simulation if the least memory of the choice exceeds that of a device, or if
 * its lower bound in seconds reaches `limit`. */
static mp_status simulate(mesh_search *x, mp_mesh_choice *c, double limit)
{
    mp_ranks ranks;
    const mp_load *load;
    bool fits = false;
    if (c->floor_bytes > x->request->memory_bytes) {
        c->verdict = MP_VERDICT_FLOOR;
        return MP_OK;
    }
    if (c->bound_seconds >= limit) {
        c->verdict = MP_VERDICT_BOUND;
        return MP_OK;
    }
    const int n_stages = (int)(c->mesh.size[MP_DIM_PP] * c->n_chunks);
    for (int merge = 0; merge < MERGES && !fits && (!merge || may_merge(x, c)); merge++) {
        mp_mesh_choice tried = *c;
        MP_CHECK(load_at(x, &c->mesh, c->micro_batch, merge, &load));
        const mp_step_request step = step_of(x, c, load, &ranks);
        if (load->n_blocks < n_stages) break;
        tried.stages = mp_pool_alloc(x->found->pool, (size_t)n_stages, sizeof *tried.stages);
        MP_ENSURE(tried.stages, x->err, MP_NOMEM, "no memory for the stages of a mesh");
        MP_CHECK(mp_step_simulate(&step, &tried, &fits, x->err));
        if (fits || !merge || tried.peak_bytes < c->peak_bytes) *c = tried;
    }
    c->verdict = fits ? MP_VERDICT_SLOWER : MP_VERDICT_OVER_MEMORY;
    c->model_seconds = c->seconds;
    if (fits) note_time(x, c);
    return MP_OK;
}

static int by_mesh(const void *a, const void *b)
{
    const mp_mesh_choice *x = a, *y = b;
    for (int d = 0; d < MP_N_DIMS; d++)
        if (x->mesh.size[d] != y->mesh.size[d]) return x->mesh.size[d] < y->mesh.size[d] ? -1 : 1;
    if (x->mesh.data != y->mesh.data) return y->mesh.data ? -1 : 1;
    if (x->mesh.zero != y->mesh.zero) return x->mesh.zero < y->mesh.zero ? -1 : 1;
    return by_bound(a, b);
}

/* For each mesh with a simulated choice, and for the mesh of --explain: simulates all further choices that may be the fastest
 * of this mesh. */
static mp_status complete(mesh_search *x)
{
    mp_mesh_choice *choices = x->found->choices, *end = choices + x->found->n;
    const mp_mesh *explained = x->request->explained;
    qsort(choices, x->found->n, sizeof *choices, by_mesh);
    for (mp_mesh_choice *first = choices, *last; first < end; first = last) {
        double best = INFINITY;
        for (last = first; last < end && mp_mesh_is_same(&first->mesh, &last->mesh); last++)
            if (last->verdict == MP_VERDICT_SLOWER && last->seconds < best) best = last->seconds;
        if (isinf(best) && !(explained && mp_mesh_is_same(explained, &first->mesh))) continue;
        for (mp_mesh_choice *c = first; c < last; c++) {
            if (c->verdict != MP_VERDICT_BOUND || c->bound_seconds >= best) continue;
            MP_CHECK(simulate(x, c, best));
            if (c->verdict == MP_VERDICT_SLOWER && c->seconds < best) best = c->seconds;
        }
    }
    return MP_OK;
}

/* ---- the judge: the graphs of the ranks ---- */

/* Sorts all choices, and ranks the best of them. Only the first `n_candidates` choices may become one of the best. */
static void rank(mesh_search *x, size_t n_candidates)
{
    mp_mesh_choice *choices = x->found->choices;
    x->found->n_best = 0;
    for (size_t k = 0; k < x->found->n; k++)
        if (choices[k].verdict == MP_VERDICT_BEST) choices[k].verdict = MP_VERDICT_SLOWER;
    qsort(choices, x->found->n, sizeof *choices, n_candidates < x->found->n ? by_judgement : by_verdict);
    mp_meshes_rank(x->found, n_candidates, x->n_best, x->request->alike);
}

/* Judges a choice with the graphs of its ranks. */
static mp_status judge(mesh_search *x, mp_mesh_choice *c)
{
    mp_error refused = {0};
    c->seconds = c->model_seconds;
    const mp_status st = x->request->judge(x->request->judge_data, c, &refused);
    c->is_judged = true;
    if (st == MP_UNSUPPORTED || st == MP_INVALID) {
        c->verdict = MP_VERDICT_REFUSED;
        return MP_OK;
    }
    if (st != MP_OK && x->err) *x->err = refused;
    return st;
}

/* A bound is no longer a reason against a choice if the best mesh is refused, or takes longer than the block model said.
 * Simulates such choices. */
static mp_status simulate_below(mesh_search *x)
{
    double best = INFINITY;
    bool any = false; /* a simulated choice remains */
    for (size_t k = 0; k < x->found->n; k++) {
        const mp_mesh_choice *c = &x->found->choices[k];
        any |= c->verdict <= MP_VERDICT_SLOWER;
        if (c->is_judged && c->verdict <= MP_VERDICT_SLOWER && c->seconds < best) best = c->seconds;
    }
    for (size_t k = 0; k < x->found->n && !(any && isinf(best)); k++) {
        mp_mesh_choice *c = &x->found->choices[k];
        if (c->verdict == MP_VERDICT_BOUND) MP_CHECK(simulate(x, c, best));
    }
    return MP_OK;
}

/* Judges the fastest choice of the mesh of --explain. */
static mp_status judge_explained(mesh_search *x)
{
    mp_mesh_choice *fastest = NULL;
    for (size_t k = 0; k < x->found->n && x->request->explained; k++) {
        mp_mesh_choice *c = &x->found->choices[k];
        if (c->verdict > MP_VERDICT_SLOWER || !mp_mesh_is_same(&c->mesh, x->request->explained)) continue;
        if (!fastest || c->seconds < fastest->seconds) fastest = c;
    }
    return fastest && !fastest->is_judged ? judge(x, fastest) : MP_OK;
}

/* Judges the best choices by the block model, and ranks them by the results. A choice that is refused is replaced by the next
 * best. */
static mp_status judge_best(mesh_search *x)
{
    size_t n = 0;
    for (bool again = true; again;) {
        rank(x, SIZE_MAX);
        again = false;
        for (size_t k = 0; k < x->found->n_best; k++) {
            mp_mesh_choice *c = &x->found->choices[k];
            if (c->is_judged) continue;
            MP_CHECK(judge(x, c));
            again |= c->verdict == MP_VERDICT_REFUSED;
        }
        if (again) MP_CHECK(simulate_below(x));
    }
    for (size_t k = 0; k < x->found->n; k++)
        n += x->found->choices[k].is_judged && x->found->choices[k].verdict <= MP_VERDICT_SLOWER;
    MP_CHECK(simulate_below(x));
    rank(x, n);
    return judge_explained(x);
}

static mp_status search(mesh_search *x)
{
    MP_CHECK(list_all(x));
    MP_ENSURE(x->found->n, x->err, MP_INVALID,
              "no mesh of %lld devices is possible. Given dimensions must divide %lld, and ep the experts. Each stage needs a "
              "block. The global batch of %lld must be a multiple of dp times shard",
              (long long)x->request->devices, (long long)x->request->devices, (long long)x->request->global_batch);
    qsort(x->found->choices, x->found->n, sizeof *x->found->choices, by_bound);
    for (size_t k = 0; k < x->found->n; k++) MP_CHECK(simulate(x, &x->found->choices[k], limit_of(x)));
    MP_CHECK(complete(x));
    if (x->request->judge) return judge_best(x);
    rank(x, SIZE_MAX);
    return MP_OK;
}

mp_status mp_meshes_search(const mp_meshes_request *request, mp_meshes **out, mp_error *err)
{
    MP_OWNED_BY(mp_meshes_free) mp_meshes *found = mp_alloc(1, sizeof *found);
    mesh_search x = {.request = request,
                     .found = found,
                     .n_best = request->n_best ? request->n_best : BEST,
                     .most_ep = INT64_MAX,
                     .err = err};
    MP_ENSURE(found && (found->pool = mp_pool_new()), err, MP_NOMEM, "no memory to search meshes");
    if (x.n_best > sizeof x.times / sizeof *x.times) x.n_best = sizeof x.times / sizeof *x.times;
    const mp_status st = search(&x);
    for (size_t k = 0; k < x.n_cached; k++)
        for (int m = 0; m < MERGES; m++) mp_load_free(x.cached[k].loads[m]);
    mp_free(x.cached);
    MP_CHECK(st);
    *out = found;
    found = NULL;
    return MP_OK;
}

void mp_meshes_free(mp_meshes *meshes)
{
    if (!meshes) return;
    mp_free(meshes->choices);
    mp_pool_free(meshes->pool);
    mp_free(meshes);
}
