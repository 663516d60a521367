/* stages.c - cuts a network into pipeline stages, and simulates one training step. */
#include "planner/parallel/stages.h"

#include <math.h>
#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "estimator/graph/collective.h"
#include "planner/parallel/cuts.h"
#include "planner/parallel/stage_model.h"

/* Returns the seconds of a collective that sends `bytes` in `pieces` messages. Each message has the latency of the network. */
static double collective_seconds(const mp_step_request *r, mp_collective collective, mp_rank_group group, int64_t bytes,
                                 int64_t pieces)
{
    return (double)pieces * mp_collective_seconds(&r->ranks->network, collective, r->ranks->algorithm, group, bytes / pieces);
}

/* Returns the seconds that compute takes if collectives run at the same time. They slow compute down. */
static double slower(const mp_step_request *r, double compute, double collectives)
{
    return compute + r->ranks->network.slowdown * (collectives < compute ? collectives : compute);
}

/* Returns the number of buckets into which this number of bytes is divided. */
static int64_t buckets(const mp_step_request *r, int64_t bytes)
{
    const int64_t most = r->ranks->bucket_bytes ? r->ranks->bucket_bytes : MP_BUCKET_BYTES;
    return bytes > most ? (bytes + most - 1) / most : 1;
}

/* Returns the number of all-gathers for this number of bytes. It is one per block, or fewer if a bucket is large enough for
 * several blocks. */
static int64_t gathers(const mp_step_request *r, const mp_stage *stage, int64_t bytes)
{
    const int64_t n = buckets(r, bytes), n_blocks = stage->end - stage->begin;
    return n < n_blocks ? n : n_blocks;
}

/* Returns the ticks of the forward and backward of one micro-batch in the blocks [begin, end). */
static int64_t ticks_of(const mp_load *load, int begin, int end)
{
    int64_t ticks = 0;
    for (int k = begin; k < end; k++) ticks += load->blocks[k].forward_ticks + load->blocks[k].backward_ticks;
    return ticks;
}

double mp_step_bound(const mp_step_request *r)
{
    const mp_load *load = r->load;
    return (double)r->n_micro_batches * (double)ticks_of(load, 0, load->n_blocks) / (double)mp_stage_model_ranks(r) *
           load->tick_seconds;
}

int64_t mp_step_floor(const mp_step_request *r)
{
    const int zero = r->ranks->mesh.zero;
    int64_t always = 0, gradients = 0, largest = 0;
    for (size_t k = 0; k < r->load->n_parameters; k++) {
        const mp_parameter_load *p = &r->load->parameters[k];
        always += mp_stage_model_part(r, p->widened * p->value_bytes, zero == 3, p->is_spread) +
                  mp_stage_model_part(r, p->state_bytes, zero >= 1, p->is_spread) - mp_stage_model_movable_state(r, p);
        gradients += mp_stage_model_part(r, p->widened * p->gradient_bytes, zero >= 2, p->is_spread);
    }
    for (int k = 0; k < r->load->n_blocks; k++) largest = mp_larger(largest, r->load->blocks[k].largest_bytes);
    if (mp_stage_model_ranks(r) > 1) return mp_larger((always + gradients) / mp_stage_model_ranks(r), largest);
    /* with a single micro-batch, the gradients need not be live at the same time as the operands of the largest node */
    return r->n_micro_batches > 1 ? always + gradients + largest : always + mp_larger(gradients, largest);
}

/* ---- seconds ---- */

/* Sets the seconds of a stage for the forward and the backward of one micro-batch, including gathers of parameters. Returns the
 * seconds of the stage's updates. */
static double time_stage(const mp_stage_model *x, mp_stage *stage)
{
    const mp_step_request *r = x->request;
    const mp_load *load = r->load;
    int64_t forward = 0, backward = 0;
    const bool shares_all = r->ranks->mesh.zero == 3, spreads = r->ranks->mesh.size[MP_DIM_EP] > 1;
    const mp_block_sums sum = mp_stage_model_sums(x, stage);
    /* gather: seconds of all gathers; scatter: of all reduce-scatters; first: of the first gather; last: of the last
     * reduce-scatter */
    double gather = 0, scatter = 0, first = 0, last = 0;
    for (int b = stage->begin; b < stage->end; b++) {
        forward += load->blocks[b].forward_ticks;
        backward += load->blocks[b].backward_ticks;
    }
    stage->forward_seconds = (double)forward * load->tick_seconds;
    stage->backward_seconds = (double)backward * load->tick_seconds + stage->extra_seconds;
    if (stage->moved_bytes) {
        const double alone = stage->forward_seconds + stage->backward_seconds;
        stage->forward_seconds = mp_stage_model_pass(x, stage, false);
        stage->backward_seconds = mp_stage_model_pass(x, stage, true);
        stage->copy_seconds = (double)r->n_micro_batches * (stage->forward_seconds + stage->backward_seconds - alone);
    }
    for (int k = 0; k < (spreads ? MP_N_SHARES : MP_SPREAD) && shares_all; k++) {
        const mp_rank_group shards = mp_stage_model_group(r, MP_DIM_SHARD, k);
        const int64_t values = sum.values[k], gradients = sum.gradients[k];
        const int64_t n_gathers = gathers(r, stage, values), n_scatters = gathers(r, stage, gradients);
        const double in = collective_seconds(r, MP_ALL_GATHER, shards, values, n_gathers),
                     out = collective_seconds(r, MP_REDUCE_SCATTER, shards, gradients, n_scatters);
        gather += in;
        scatter += out;
        first = fmax(first, in / (double)n_gathers);
        last = fmax(last, out / (double)n_scatters);
        stage->sent_bytes += r->n_micro_batches * (2 * mp_collective_sent_bytes(MP_ALL_GATHER, shards.n, values) +
                                                   mp_collective_sent_bytes(MP_REDUCE_SCATTER, shards.n, gradients));
    }
    if (shares_all) { /* compute hides the collectives, except the first gather and the last scatter */
        const double slower_forward = slower(r, stage->forward_seconds, gather),
                     slower_backward = slower(r, stage->backward_seconds, gather + scatter);
        stage->forward_seconds = fmax(slower_forward, gather) + first;
        stage->backward_seconds = fmax(slower_backward, gather + scatter) + last;
    }
    const double update = (double)sum.update_ticks * load->tick_seconds;
    if (!stage->moved_state_bytes) return update;
    stage->copy_seconds += stage->update_seconds - update;
    return stage->update_seconds;
}

/* Returns the bytes that the operators of a stage send per micro-batch. */
static int64_t sent_by_operators(const mp_load *load, const mp_stage *stage)
{
    int64_t bytes = 0;
    for (int b = stage->begin; b < stage->end; b++) bytes += load->blocks[b].sent_bytes;
    return bytes;
}

/* Adds the seconds in which ranks sum the gradients and gather the parameters of one group (common, or experts). *last: seconds
 * of the last bucket, during which nothing is computed. */
static void add_exchange(const mp_stage_model *x, mp_stage *stage, int share, double *sums, double *last, double *gather)
{
    const mp_step_request *r = x->request;
    const mp_mesh *mesh = &r->ranks->mesh;
    const mp_rank_group shards = mp_stage_model_group(r, MP_DIM_SHARD, share),
                        copies = mp_stage_model_group(r, MP_DIM_DP, share), split = mp_mesh_group(mesh, MP_DIM_TP);
    const mp_block_sums sum = mp_stage_model_sums(x, stage);
    const int64_t values = sum.values[share], gradients = sum.gradients[share];
    const int64_t left = mp_stage_model_part(r, gradients, mesh->zero > 0, share),
                  parts = mp_stage_model_part(r, sum.parts[share], mesh->zero > 0, share);
    const int64_t n = buckets(r, gradients);
    double seconds = collective_seconds(r, MP_ALL_REDUCE, copies, left, n);
    if (parts) seconds += collective_seconds(r, MP_ALL_REDUCE, split, parts, buckets(r, parts));
    stage->sent_bytes +=
        mp_collective_sent_bytes(MP_ALL_REDUCE, copies.n, left) + mp_collective_sent_bytes(MP_ALL_REDUCE, split.n, parts);
    if (mesh->zero == 1 || mesh->zero == 2) {
        seconds += collective_seconds(r, MP_REDUCE_SCATTER, shards, gradients, n);
        *gather += collective_seconds(r, MP_ALL_GATHER, shards, values, n);
        stage->sent_bytes += mp_collective_sent_bytes(MP_REDUCE_SCATTER, shards.n, gradients) +
                             mp_collective_sent_bytes(MP_ALL_GATHER, shards.n, values);
    }
    *sums += seconds;
    *last = fmax(*last, seconds / (double)n);
}

/* Returns the seconds that a stage needs after its last backward, for summing gradients and gathering updated parameters. */
static double exchange_of(const mp_stage_model *x, mp_stage *stage)
{
    double sums = 0, last = 0, gather = 0;
    for (int k = 0; k < MP_N_SHARES; k++)
        if (k == MP_COMMON || x->request->ranks->mesh.size[MP_DIM_EP] > 1) add_exchange(x, stage, k, &sums, &last, &gather);
    const double longer = slower(x->request, stage->backward_seconds, sums) - stage->backward_seconds;
    return fmax(last, sums - stage->backward_seconds) + longer + gather;
}

/* If a stage exceeds the memory, moves a block from the fullest stage to its less full neighbour, and repeats this. Ends if all
 * stages fit, if the fullest stage has one block left, or after 2 n moves. Returns true if all stages fit. */
static bool relieve(const mp_stage_model *x, mp_stage *stages, int n)
{
    const int64_t memory_bytes = x->request->memory_bytes;
    for (int round = 0;; round++) {
        int full = -1;
        for (int i = 0; i < n; i++)
            if (stages[i].peak_bytes > memory_bytes && (full < 0 || stages[i].peak_bytes > stages[full].peak_bytes)) full = i;
        if (full < 0 || round == 2 * n) return full < 0;
        const bool has_left = full > 0, has_right = full + 1 < n;
        const bool goes_left = has_left && (!has_right || stages[full - 1].peak_bytes < stages[full + 1].peak_bytes);
        if (stages[full].end - stages[full].begin < 2 || !(has_left || has_right)) return false;
        if (goes_left)
            stages[full - 1].end = ++stages[full].begin;
        else
            stages[full + 1].begin = --stages[full].end;
        const int ranks = (int)mp_stage_model_ranks(x->request);
        mp_stage_model_hold(x, stages, full % ranks);
        mp_stage_model_hold(x, stages, (goes_left ? full - 1 : full + 1) % ranks);
    }
}

/* Returns the seconds of the weight gradients of one micro-batch in a stage, which a schedule may postpone. */
static double weights_of(const mp_stage_model *x, const mp_stage *stage)
{
    int64_t ticks = 0;
    for (int b = stage->begin; b < stage->end; b++) ticks += x->request->load->blocks[b].weights_ticks;
    return (double)ticks * x->request->load->tick_seconds;
}

/* Finds the time at which a rank holds the most micro-batches in flight. Sets their number for each chunk of the rank. */
static mp_status count_flight(const mp_pipeline_shape *shape, int rank, mp_stage *stages, mp_error *err)
{
    const size_t n = mp_schedule_turns(shape);
    MP_OWNED mp_turn *turns = mp_alloc(n, sizeof *turns);
    MP_OWNED int64_t *now = mp_alloc((size_t)shape->n_chunks, sizeof *now);
    int64_t all = 0, most = 0;
    if (!turns || !now) return MP_NO_MEMORY(err);
    mp_schedule_order(shape, rank, turns);
    for (size_t t = 0; t < n; t++) {
        if (turns[t].pass == MP_PASS_WEIGHTS) continue;
        const int change = turns[t].pass == MP_PASS_FORWARD ? 1 : -1;
        now[turns[t].chunk] += change;
        all += change;
        if (all <= most) continue;
        most = all;
        for (int c = 0; c < shape->n_chunks; c++) stages[c * shape->n_ranks + rank].in_flight = now[c];
    }
    const int64_t waiting = shape->schedule == MP_SCHEDULE_ZB_H1 ? rank : 0;
    for (int c = 0; c < shape->n_chunks; c++)
        stages[c * shape->n_ranks + rank].waiting = waiting < shape->n_micro_batches ? waiting : shape->n_micro_batches;
    return MP_OK;
}

/* The state of the simulation of one training step with given stage boundaries. */
typedef struct step {
    const mp_stage_model *x;
    mp_pipeline_shape shape;
    int n;          /* number of stages */
    mp_stage *held; /* a copy of the stages whose memory is computed, but whose seconds are not */
    mp_stage *tried;
    mp_stage_seconds *seconds;
} step;

/* Returns the seconds in which a stage, after its last backward, sums gradients of tied parameters. Another rank reads a tied
 * parameter too, so both ranks sum its gradient. */
static double tied_sums_of(const step *s, mp_stage *stage)
{
    const mp_step_request *r = s->x->request;
    double seconds = 0;
    for (size_t k = 0; k < s->x->n_tied; k++) {
        const mp_parameter_load *p = &r->load->parameters[s->x->tied[k]];
        int first = 0, last = 0;
        for (int i = 0; i < s->n; i++) {
            if (p->first >= s->held[i].begin) first = i;
            if (p->last >= s->held[i].begin) last = i;
        }
        const int own = (int)(stage - s->held), distance = last % s->shape.n_ranks - first % s->shape.n_ranks;
        if (!distance || !p->gradient_bytes || (own != first && own != last)) continue;
        mp_rank_group group = mp_mesh_group(&r->ranks->mesh, MP_DIM_PP);
        group.n = 2;
        group.stride *= distance < 0 ? -distance : distance;
        const int64_t bytes =
            mp_stage_model_part(r, p->gradient_bytes, r->ranks->mesh.zero >= 2, p->is_spread ? MP_SPREAD : MP_COMMON);
        seconds += collective_seconds(r, MP_ALL_REDUCE, group, bytes, 1);
    }
    return seconds;
}

/* Returns the record of sending a block's output to the next stage. */
static mp_collective_record send_of(const mp_step_request *r, int64_t handed)
{
    const mp_mesh *mesh = &r->ranks->mesh;
    mp_collective_record record = {.member = -1};
    if (handed)
        mp_collective_add_send(&record, &r->ranks->network, r->ranks->algorithm, mesh, mp_mesh_group(mesh, MP_DIM_PP), handed);
    return record;
}

/* Computes the seconds of each stage. If all stages fit, simulates the training step. Sets all fields of *out except its
 * peak. */
static mp_status play(const step *s, bool fits, mp_mesh_choice *out, mp_error *err)
{
    const mp_step_request *r = s->x->request;
    MP_OWNED_BY(mp_schedule_free) mp_played *played = NULL;
    memcpy(out->stages, s->held, (size_t)s->n * sizeof *s->held);
    out->exposed_seconds = 0;
    for (int i = 0; i < s->n; i++) {
        mp_stage *stage = &out->stages[i];
        const double update = time_stage(s->x, stage);
        const int64_t handed = i + 1 < s->n ? r->load->blocks[stage->end - 1].output_bytes : 0;
        const mp_collective_record send = send_of(r, handed);
        stage->sent_bytes +=
            r->n_micro_batches * (mp_collective_record_sent(NULL, &send, NULL) + sent_by_operators(r->load, stage));
        const double exchange = exchange_of(s->x, stage) + tied_sums_of(s, &s->held[i]), waits = weights_of(s->x, stage);
        out->exposed_seconds = fmax(out->exposed_seconds, exchange);
        s->seconds[i] = (mp_stage_seconds){.forward = stage->forward_seconds,
                                           .backward = stage->backward_seconds - waits,
                                           .weights = waits,
                                           .send = mp_collective_record_seconds(&send),
                                           .tail = exchange + update};
    }
    if (!fits) return MP_OK;
    MP_CHECK(mp_schedule_play(&s->shape, s->seconds, &played, err));
    out->seconds = played->seconds;
    out->bubble_seconds = played->bubble_seconds;
    return MP_OK;
}

/* Moves a block from a stage to its neighbour, and computes the memory of both ranks again. Returns true if both fit. */
static bool shift(const step *s, int from, int to)
{
    mp_stage *stages = s->held;
    if (to > from)
        stages[to].begin = --stages[from].end;
    else
        stages[to].end = ++stages[from].begin;
    const bool fits = mp_stage_model_hold(s->x, stages, from % s->shape.n_ranks);
    return mp_stage_model_hold(s->x, stages, to % s->shape.n_ranks) && fits;
}

/* Returns the rank that is busy for the most seconds. */
static int busiest(const step *s, const mp_stage *stages)
{
    int found = 0;
    double most = -1;
    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        double seconds = 0;
        for (int i = rank; i < s->n; i += s->shape.n_ranks) seconds += stages[i].forward_seconds + stages[i].backward_seconds;
        if (seconds > most) found = rank;
        most = fmax(most, seconds);
    }
    return found;
}

/* Moves a block from a stage to its neighbour if the training step becomes shorter. Otherwise leaves the stages unchanged. */
static mp_status try_shift(const step *s, int from, int to, mp_mesh_choice *out, bool *is_better, mp_error *err)
{
    mp_mesh_choice tried = *out;
    tried.stages = s->tried;
    *is_better = false;
    if (to < 0 || to >= s->n || s->held[from].end - s->held[from].begin < 2) return MP_OK;
    const bool fits = shift(s, from, to);
    if (fits) MP_CHECK(play(s, fits, &tried, err));
    *is_better = fits && tried.seconds < out->seconds;
    if (!*is_better) {
        shift(s, to, from);
        return MP_OK;
    }
    memcpy(out->stages, s->tried, (size_t)s->n * sizeof *s->tried);
    tried.stages = out->stages;
    *out = tried;
    return MP_OK;
}

/* As long as the busiest rank recomputes, moves a block away from it if the training step becomes shorter. Recomputation costs
 * no time on a rank that would be idle, so uneven stages can be faster than even ones. */
static mp_status even_out(const step *s, mp_mesh_choice *out, mp_error *err)
{
    const int n_ranks = s->shape.n_ranks;
    for (bool is_better = n_ranks > 1; is_better;) {
        const int rank = busiest(s, out->stages);
        double extra = 0;
        is_better = false;
        for (int i = rank; i < s->n; i += n_ranks) extra += out->stages[i].extra_seconds;
        if (extra == 0) break;
        for (int i = rank; i < s->n && !is_better; i += n_ranks) {
            MP_CHECK(try_shift(s, i, i - 1, out, &is_better, err));
            if (!is_better) MP_CHECK(try_shift(s, i, i + 1, out, &is_better, err));
        }
    }
    return MP_OK;
}

/* Simulates the training step with stage boundaries that are chosen by one rule (mp_stage_cut). */
static mp_status play_cut(step *s, mp_stage_cut kind, mp_mesh_choice *out, bool *fits, mp_error *err)
{
    const mp_step_request *r = s->x->request;
    *fits = true;
    memset(s->held, 0, (size_t)s->n * sizeof *s->held);
    MP_CHECK(mp_cut_stages(r->load, s->shape.n_ranks, s->shape.n_chunks, kind, s->held, err));
    for (int i = 0; i < s->shape.n_ranks; i++) {
        MP_CHECK(count_flight(&s->shape, i, s->held, err));
        *fits &= mp_stage_model_hold(s->x, s->held, i);
    }
    if (!*fits) *fits = relieve(s->x, s->held, s->n);
    MP_CHECK(play(s, *fits, out, err));
    if (*fits) MP_CHECK(even_out(s, out, err));
    out->n_stages = (size_t)s->n;
    out->peak_bytes = 0;
    for (int i = 0; i < s->n; i++) out->peak_bytes = mp_larger(out->peak_bytes, out->stages[i].peak_bytes);
    return MP_OK;
}

/* Simulates the training step with stage boundaries chosen by another rule. Keeps the result if the step is shorter. */
static mp_status try_cut(step *s, mp_stage_cut kind, mp_mesh_choice *out, bool *fits, mp_pool *pool, mp_error *err)
{
    mp_mesh_choice tried = *out;
    bool tried_fits;
    tried.stages = mp_pool_alloc(pool, (size_t)s->n, sizeof *tried.stages);
    if (!tried.stages) return MP_NO_MEMORY(err);
    MP_CHECK(play_cut(s, kind, &tried, &tried_fits, err));
    const bool is_better = tried_fits != *fits ? tried_fits
                           : tried_fits        ? tried.seconds < out->seconds
                                               : tried.peak_bytes < out->peak_bytes;
    if (!is_better) return MP_OK;
    *fits = tried_fits;
    memcpy(out->stages, tried.stages, (size_t)s->n * sizeof *tried.stages);
    tried.stages = out->stages;
    *out = tried;
    return MP_OK;
}

mp_status mp_step_simulate(const mp_step_request *r, mp_mesh_choice *out, bool *fits, mp_error *err)
{
    const int n = (int)mp_stage_model_stages(r), ranks = (int)mp_stage_model_ranks(r);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_stage_model x;
    step s = {.x = &x,
              .shape = {.schedule = r->schedule,
                        .n_ranks = ranks,
                        .n_chunks = (int)r->n_chunks,
                        .n_micro_batches = r->n_micro_batches},
              .n = n,
              .held = mp_pool_alloc(pool, (size_t)n, sizeof *s.held),
              .tried = mp_pool_alloc(pool, (size_t)n, sizeof *s.tried),
              .seconds = mp_pool_alloc(pool, (size_t)n, sizeof *s.seconds)};
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    MP_CHECK(mp_stage_model_new(r, pool, &x, err));
    MP_CHECK(play_cut(&s, MP_CUT_LATE, out, fits, err));
    /* the other rules for stage boundaries are tried only if ranks have several stages; otherwise they cannot distribute the
     * work more evenly over the ranks */
    for (int kind = MP_CUT_LATE + 1; kind < MP_N_CUTS && r->n_chunks > 1; kind++)
        MP_CHECK(try_cut(&s, (mp_stage_cut)kind, out, fits, pool, err));
    return MP_OK;
}
