/* exact_mesh.c - simulates a training step of a mesh with the graph of each pipeline stage. */
#include "memplan/ranks/exact_mesh.h"

#include <stdio.h>

#include "estimator/base/memory.h"
#include "estimator/graph/collective.h"
#include "executor/workload/workload_mesh.h"
#include "memplan/problem.h"
#include "memplan/ranks/pipeline_cut.h"
#include "memplan/workloads/workload_needs.h"

/* fraction of a step's seconds: a smaller difference of two sums is a rounding error */
static const double rounding = 1e-9;

/* The results for one rank. Its chunks' seconds are in exact_step.seconds. */
typedef struct exact_rank {
    int64_t peak_bytes;
    int64_t kind_bytes[MP_N_KINDS]; /* static bytes by kind */
    int64_t sent_bytes;             /* in a training step */
    double busy;                    /* seconds per step without collectives */
} exact_rank;

typedef struct exact_step {
    const mp_exact_mesh *mesh;
    const mp_mesh_choice *choice;
    mp_pipeline_shape shape;
    exact_rank *ranks;
    mp_stage_seconds *seconds; /* per stage */
    bool fits;
    mp_workload_terms terms; /* the process of a rank */
    mp_needs needs;          /* needs of the rank with the largest process so far */
    mp_pool *pool;           /* owns all arrays and texts */
} exact_step;

/* Returns a graph that is not cut into stages as the only rank of a pipeline. */
static mp_rank rank_alone(mp_graph *graph, int64_t n_micro_batches)
{
    return (mp_rank){.graph = graph, .shape = {MP_SCHEDULE_1F1B, 1, 1, n_micro_batches}, .held = -1, .turn = -1};
}

mp_status mp_workload_step_seconds(const mp_workload *w, int64_t n_micro_batches, const mp_step *steps, size_t n,
                                   double *seconds, mp_error *err)
{
    const mp_rank alone = rank_alone(w->graph, n_micro_batches);
    MP_OWNED_BY(mp_schedule_free) mp_played *played = NULL;
    mp_stage_seconds stage;
    MP_CHECK(mp_rank_seconds(&alone, steps, n, &stage, err));
    MP_CHECK(mp_schedule_play(&alone.shape, &stage, &played, err));
    *seconds = played->seconds;
    return MP_OK;
}

/* ---- the ranks ---- */

/* Returns the settings of a rank: the rank's number as a text, and the first blocks of all stages, such as "0,6,12". With
 * number NULL, they are the settings of the whole network without the collectives of gradients. */
static mp_workload_options options_of(const exact_step *x, const char *number, const char *begins)
{
    const mp_mesh_choice *c = x->choice;
    mp_workload_options o = *x->mesh->options;
    const bool is_pipeline = x->shape.n_ranks > 1;
    o.mesh = c->mesh;
    if (o.mesh.zero < 2) o.fsdp_units.n = 0; /* fully_shard is not used */
    o.batch = is_pipeline ? c->micro_batch * c->n_micro_batches : c->micro_batch;
    o.accumulate = !is_pipeline && c->n_micro_batches > 1 ? c->n_micro_batches : 0;
    o.micro_batches = is_pipeline ? c->n_micro_batches : 0;
    o.pipeline_schedule = is_pipeline ? mp_schedule_name(c->schedule) : NULL;
    o.chunks = c->n_chunks > 1 ? c->n_chunks : 0;
    o.leaves_whole = o.leaves_sums = is_pipeline && !number;
    o.rank = number;
    o.stages = begins;
    o.offload = o.link = (mp_text_list){0};
    o.offload_state = false;
    return o;
}

/* Adds up the seconds of compute and of the operators' exchanges in a training step. */
static double busy_seconds(const exact_step *x, const mp_graph *g, const mp_step *steps, size_t n)
{
    int64_t each = 0, once = 0;
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &g->nodes[steps[t].node];
        const mp_alternative *a = &node->alternatives[steps[t].alternative];
        if (a->channel <= MP_CHANNEL_SECOND_STREAM || mp_exchanges_gradient(node))
            *(node->phase == MP_PHASE_UPDATE ? &once : &each) += a->ticks;
    }
    return ((double)each * (double)x->shape.n_micro_batches + (double)once) * g->tick_seconds;
}

/* Keeps the needs of a rank's process if it is the largest process so far. */
static mp_status take_needs(exact_step *x, const mp_graph *g, const mp_step *steps, const mp_timeline *timeline, mp_error *err)
{
    mp_needs_terms terms = x->terms.process;
    mp_needs needs;
    if (terms.arena_bytes >= 0) terms.arena_bytes = timeline->peak_bytes - timeline->static_bytes;
    MP_CHECK(mp_needs_of(g, steps, timeline, &terms, &needs, err));
    if (needs.process_bytes > x->needs.process_bytes) x->needs = needs;
    return MP_OK;
}

/* Records the results of a rank for these steps. */
static mp_status take_rank(exact_step *x, const mp_rank *rank, const mp_step *steps, const mp_timeline *timeline, mp_error *err)
{
    const size_t n = timeline->n_steps;
    const mp_graph *g = rank->graph;
    exact_rank *r = &x->ranks[rank->rank];
    mp_rank_traffic sent;
    MP_CHECK(mp_rank_seconds(rank, steps, n, x->seconds, err));
    r->peak_bytes = timeline->peak_bytes;
    r->busy = busy_seconds(x, g, steps, n);
    mp_traffic_of(g, steps, n, x->shape.n_micro_batches, NULL, &sent);
    if (x->shape.n_ranks > 1) MP_CHECK(mp_rank_add_repeated(g, &rank->shape, rank->rank, steps, n, NULL, &sent, err));
    r->sent_bytes = sent.sent_bytes;
    mp_graph_kind_bytes(g, r->kind_bytes);
    return take_needs(x, g, steps, timeline, err);
}

/* Measures a rank with everything kept. The rank is recorded only if it fits in the memory. */
static mp_status measure_rank(exact_step *x, const mp_rank *rank, mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    const mp_step *steps;
    const mp_timeline *timeline;
    MP_CHECK(mp_problem_new(rank->graph, &problem, err));
    MP_CHECK((x->shape.n_ranks == 1 ? mp_problem_earliest : mp_problem_keep_all)(problem, &steps, &timeline, err));
    x->fits = timeline->peak_bytes <= x->mesh->memory_bytes;
    return x->fits ? take_rank(x, rank, steps, timeline, err) : MP_OK;
}

/* Loads and measures a rank of which memplan's executor has a program. */
static mp_status measure_program(exact_step *x, int number, mp_error *err)
{
    enum { DIGITS = 12 };
    MP_CLEARED_BY(mp_workload_free) mp_workload w = {0};
    const size_t n = x->choice->n_stages * DIGITS;
    char of_rank[DIGITS], *begins = mp_pool_alloc(x->pool, n, 1);
    if (!begins) return MP_NO_MEMORY(err);
    snprintf(of_rank, sizeof of_rank, "%d", number);
    for (size_t k = 0, used = 0; k < x->choice->n_stages; k++)
        used += (size_t)snprintf(begins + used, n - used, "%s%d", k ? "," : "", x->choice->stages[k].begin);
    const mp_workload_options o = options_of(x, of_rank, begins);
    MP_CHECK(mp_workload_load(x->mesh->path, &o, &w, err));
    return measure_rank(x, &w.rank, err);
}

/* Cuts the graph of a rank out of the whole graph, and measures it. */
static mp_status measure_stage(exact_step *x, const mp_pipeline *pipeline, int number, mp_error *err)
{
    MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
    MP_CHECK(mp_pipeline_rank_graph(pipeline, number, &rank, err));
    MP_CHECK(mp_graph_exchange(rank.graph, pipeline->ranks, err));
    MP_CHECK(mp_workload_hold_all(&rank, err));
    return measure_rank(x, &rank, err);
}

/* Returns the rank whose stages have the largest peak in the block model (sums over the blocks of the network). This rank is
 * measured first, because it may not fit. */
static int fullest_rank(const exact_step *x)
{
    size_t fullest = 0;
    for (size_t k = 1; k < x->choice->n_stages; k++)
        if (x->choice->stages[k].peak_bytes > x->choice->stages[fullest].peak_bytes) fullest = k;
    return (int)(fullest % (size_t)x->shape.n_ranks);
}

static mp_status measure_pipeline(exact_step *x, const mp_workload *whole, mp_error *err)
{
    MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = NULL;
    int *begins = mp_pool_alloc(x->pool, x->choice->n_stages, sizeof *begins);
    if (!begins) return MP_NO_MEMORY(err);
    for (size_t k = 0; k < x->choice->n_stages; k++) begins[k] = x->choice->stages[k].begin;
    const mp_pipeline_request request = {.graph = whole->graph, .ranks = &whole->ranks, .shape = x->shape, .begins = begins};
    if (!whole->program) MP_CHECK(mp_pipeline_new(&request, &pipeline, err));
    for (int k = 0, first = fullest_rank(x); k < x->shape.n_ranks && x->fits; k++) {
        const int number = (first + k) % x->shape.n_ranks;
        MP_CHECK(pipeline ? measure_stage(x, pipeline, number, err) : measure_program(x, number, err));
    }
    return MP_OK;
}

static mp_status measure(exact_step *x, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload whole = {0};
    const mp_workload_options o = options_of(x, NULL, NULL);
    MP_CHECK(mp_workload_load(x->mesh->path, &o, &whole, err));
    const mp_rank alone = rank_alone(whole.graph, x->shape.n_micro_batches);
    mp_workload_terms_of(&whole, &o, &x->terms);
    x->fits = true;
    return x->shape.n_ranks > 1 ? measure_pipeline(x, &whole, err) : measure_rank(x, &alone, err);
}

/* ---- the choice ---- */

/* Divides `bytes` in proportion to n amounts with the sum `sum`. Returns the part of one of them; the amounts before it have
 * the sum `before`. The parts add up to `bytes`. */
static int64_t part_of(int64_t bytes, int64_t before, int64_t amount, int64_t sum)
{
    return (int64_t)((double)bytes * ((double)(before + amount) / (double)sum)) -
           (int64_t)((double)bytes * ((double)before / (double)sum));
}

/* Divides the bytes of a rank among its stages. A rank with one stage has the static bytes of its graph. If a rank has several
 * stages, the shares from the block model (sums over the blocks of the network) remain. Activations are all bytes of the peak
 * that are neither static nor buffers. */
static void set_bytes(const exact_step *x, mp_mesh_choice *c, int rank)
{
    const exact_rank *r = &x->ranks[rank];
    const size_t first = (size_t)rank, step = (size_t)x->shape.n_ranks;
    int64_t others = 0, buffers = 0, activations = 0, sent = 0;
    for (size_t k = first; k < c->n_stages; k += step) {
        mp_stage *s = &c->stages[k];
        if (x->shape.n_chunks == 1) {
            s->parameter_bytes = r->kind_bytes[MP_KIND_PARAMETER];
            s->gradient_bytes = r->kind_bytes[MP_KIND_GRADIENT];
            s->state_bytes = r->kind_bytes[MP_KIND_OPTIMIZER_STATE];
        }
        others += s->parameter_bytes + s->gradient_bytes + s->state_bytes;
        activations += s->activation_bytes + 1; /* one byte more, so that the sum is above 0 */
        sent += s->sent_bytes + 1;
        if (s->buffer_bytes > buffers) buffers = s->buffer_bytes;
    }
    const int64_t left = r->peak_bytes - others > 0 ? r->peak_bytes - others : 0;
    if (buffers > left) buffers = left;
    int64_t activations_before = 0, sent_before = 0;
    for (size_t k = first; k < c->n_stages; k += step) {
        mp_stage *s = &c->stages[k];
        const int64_t own_activations = s->activation_bytes + 1, own_sent = s->sent_bytes + 1;
        s->buffer_bytes = buffers;
        s->activation_bytes = part_of(left - buffers, activations_before, own_activations, activations);
        s->sent_bytes = part_of(r->sent_bytes, sent_before, own_sent, sent);
        s->peak_bytes = r->peak_bytes;
        activations_before += own_activations;
        sent_before += own_sent;
    }
}

/* Replaces the block model's numbers of a choice by the results of the simulation with the stages' graphs. */
static void replace(const exact_step *x, const mp_played *played, mp_mesh_choice *c)
{
    c->judge = MP_JUDGE_KEEP_ALL;
    c->needs = x->needs;
    c->seconds = played->seconds;
    c->bubble_seconds = played->bubble_seconds;
    c->peak_bytes = 0;
    c->exposed_seconds = 0;
    for (int r = 0; r < x->shape.n_ranks; r++) {
        double all = 0;
        for (size_t k = (size_t)r; k < c->n_stages; k += (size_t)x->shape.n_ranks) {
            const mp_stage_seconds *s = &x->seconds[k];
            all += (double)x->shape.n_micro_batches * (s->forward + s->backward + s->weights) + s->tail;
            c->stages[k].forward_seconds = s->forward;
            c->stages[k].backward_seconds = s->backward + s->weights;
            c->stages[k].extra_seconds = c->stages[k].hidden_seconds = 0;
            c->stages[k].recomputed_bytes = 0;
        }
        set_bytes(x, c, r);
        const double exposed = all - x->ranks[r].busy;
        if (exposed > rounding * all && exposed > c->exposed_seconds) c->exposed_seconds = exposed;
        if (x->ranks[r].peak_bytes > c->peak_bytes) c->peak_bytes = x->ranks[r].peak_bytes;
    }
}

mp_status mp_exact_mesh_judge(void *data, mp_mesh_choice *c, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_schedule_free) mp_played *played = NULL;
    exact_step x = {.mesh = data,
                    .choice = c,
                    .shape = {c->schedule, (int)c->mesh.size[MP_DIM_PP], (int)c->n_chunks, c->n_micro_batches},
                    .pool = pool};
    x.ranks = mp_pool_alloc(pool, (size_t)x.shape.n_ranks, sizeof *x.ranks);
    x.seconds = mp_pool_alloc(pool, c->n_stages, sizeof *x.seconds);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    MP_CHECK(measure(&x, err));
    if (!x.fits) return MP_OK;
    MP_CHECK(mp_schedule_play(&x.shape, x.seconds, &played, err));
    replace(&x, played, c);
    return MP_OK;
}

/* Returns the bytes by which the fullest rank's process of the best mesh exceeds its card. 0: the process fits, or its memory
 * is unknown. Without measured jobs the margin does not count, because no measured job had several GPUs. */
static int64_t excess_bytes(const mp_meshes *found)
{
    if (!found->n_best) return 0;
    const mp_needs *needs = &found->choices->needs;
    const int64_t bytes = needs->n_jobs ? needs->likely_bytes : needs->process_bytes;
    const bool is_known = needs->process_bytes > 0 && needs->card_bytes > 0;
    return is_known && needs->expandable_bytes < 0 && bytes > needs->card_bytes ? bytes - needs->card_bytes : 0;
}

mp_status mp_exact_mesh_search(mp_meshes_request *request, mp_exact_mesh *mesh, int64_t *withheld_bytes, mp_meshes **out,
                               mp_error *err)
{
    enum { MOST_SEARCHES = 3 };
    MP_OWNED_BY(mp_meshes_free) mp_meshes *found = NULL;
    *withheld_bytes = 0;
    MP_CHECK(mp_meshes_search(request, &found, err));
    for (int k = 1; k < MOST_SEARCHES; k++) {
        const int64_t excess = excess_bytes(found);
        if (excess <= 0 || excess >= request->memory_bytes) break;
        *withheld_bytes += excess;
        request->memory_bytes -= excess;
        mesh->memory_bytes = request->memory_bytes;
        mp_meshes_free(found);
        found = NULL;
        MP_CHECK(mp_meshes_search(request, &found, err));
    }
    *out = found;
    found = NULL;
    return MP_OK;
}
