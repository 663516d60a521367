/* stages.c - cuts a network into stages, chooses what each keeps, and plays a step through. */
#include "planner/parallel/stages.h"

#include <string.h>

#include "estimator/base/memory.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Parameters that all ranks of dp and shard have, and those of experts, which lie on ranks of ep. */
enum { COMMON, SPREAD, N_SHARES };

/* Returns the ranks over which such parameters are shared out, or copied. */
static mp_rank_group group_of(const mp_step_request *r, mp_dim dim, int share)
{
    return share == SPREAD ? mp_mesh_expert_group(&r->ranks->mesh, dim) : mp_mesh_group(&r->ranks->mesh, dim);
}

static int64_t part(const mp_step_request *r, int64_t bytes, bool is_shared, int share)
{
    const int64_t n = is_shared ? group_of(r, MP_DIM_SHARD, share).n : 1;
    return bytes / n + (bytes % n != 0);
}

static int64_t n_ranks(const mp_step_request *r)
{
    return r->ranks->mesh.size[MP_DIM_PP];
}

/* Returns the number of stages: each rank has as many as it has chunks. */
static int64_t n_stages(const mp_step_request *r)
{
    return n_ranks(r) * r->n_chunks;
}

/* Returns the seconds of a collective that is cut into pieces: each has its latency. */
static double seconds_of(const mp_step_request *r, mp_collective collective, mp_rank_group group, int64_t bytes, int64_t pieces)
{
    return (double)pieces * mp_collective_seconds(&r->ranks->network, collective, r->ranks->algorithm, group, bytes / pieces);
}

/* Returns the seconds of compute with so many seconds of collectives beside it, as far as they last. */
static double slower(const mp_step_request *r, double compute, double collectives)
{
    return compute + r->ranks->network.slowdown * (collectives < compute ? collectives : compute);
}

/* Returns into how many buckets so many bytes are cut. */
static int64_t buckets(const mp_step_request *r, int64_t bytes)
{
    const int64_t most = r->ranks->bucket_bytes ? r->ranks->bucket_bytes : MP_BUCKET_BYTES;
    return bytes > most ? (bytes + most - 1) / most : 1;
}

/* Returns into how many pieces parameters are gathered: a block's at once, or several blocks' that fill a bucket. */
static int64_t gathers(const mp_step_request *r, const mp_stage *stage, int64_t bytes)
{
    const int64_t n = buckets(r, bytes), n_blocks = stage->end - stage->begin;
    return n < n_blocks ? n : n_blocks;
}

/* Returns the ticks of a micro-batch's forward and backward in the blocks [begin, end). */
static int64_t ticks_of(const mp_load *load, int begin, int end)
{
    int64_t ticks = 0;
    for (int k = begin; k < end; k++) ticks += load->blocks[k].forward_ticks + load->blocks[k].backward_ticks;
    return ticks;
}

double mp_step_bound(const mp_step_request *r)
{
    const mp_load *load = r->load;
    return (double)r->n_micro_batches * (double)ticks_of(load, 0, load->n_blocks) / (double)n_ranks(r) * load->tick_seconds;
}

int64_t mp_step_floor(const mp_step_request *r)
{
    const int zero = r->ranks->mesh.zero;
    int64_t always = 0, gradients = 0, largest = 0;
    for (size_t k = 0; k < r->load->n_parameters; k++) {
        const mp_parameter_load *p = &r->load->parameters[k];
        always += part(r, p->value_bytes, zero == 3, p->is_spread) + part(r, p->state_bytes, zero >= 1, p->is_spread);
        gradients += part(r, p->gradient_bytes, zero >= 2, p->is_spread);
    }
    for (int k = 0; k < r->load->n_blocks; k++) largest = larger(largest, r->load->blocks[k].largest_bytes);
    if (n_ranks(r) > 1) return larger((always + gradients) / n_ranks(r), largest);
    /* with one micro-batch, gradients may be there only when the largest node has run */
    return r->n_micro_batches > 1 ? always + gradients + largest : always + larger(gradients, largest);
}

/* ---- where stages end ---- */

/* Cuts the blocks, from the last one on, into stages of at most so many ticks; false: that takes more stages than there are. */
static bool cut_within(const mp_load *load, int64_t ticks, int n, mp_stage *stages)
{
    int end = load->n_blocks;
    for (int i = n - 1; i >= 0; i--) {
        int begin = end - 1;
        while (begin > i && ticks_of(load, begin - 1, end) <= ticks) begin--; /* a block for each stage before it is left */
        if (i == 0) begin = 0;
        if (begin < i || ticks_of(load, begin, end) > ticks) return false;
        stages[i].begin = begin;
        stages[i].end = end;
        end = begin;
    }
    return true;
}

static void cut(const mp_load *load, int n, mp_stage *stages)
{
    int64_t low = 0, high = ticks_of(load, 0, load->n_blocks);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (cut_within(load, middle, n, stages))
            high = middle;
        else
            low = middle + 1;
    }
    cut_within(load, high, n, stages);
}

/* ---- what a stage holds ---- */

/* The parameters that a block is the first to read. */
typedef struct block_sums {
    int64_t values[N_SHARES], gradients[N_SHARES], parts[N_SHARES]; /* before sharing out; of gradients summed over tp */
    int64_t value_bytes, gradient_bytes, state_bytes;               /* that a rank holds */
    int64_t update_ticks;
} block_sums;

/* A step that is being played. */
typedef struct player {
    const mp_step_request *request;
    block_sums *sums; /* per block */
    int *tied;        /* parameters that blocks further on read too */
    size_t n_tied;
    int *options; /* per block: the option that it runs by */
} player;

static block_sums sums_of(const mp_step_request *r, const mp_parameter_load *p)
{
    const int zero = r->ranks->mesh.zero, share = p->is_spread ? SPREAD : COMMON;
    block_sums sum = {.value_bytes = part(r, p->value_bytes, zero == 3, share),
                      .gradient_bytes = part(r, p->gradient_bytes, zero >= 2, share),
                      .state_bytes = part(r, p->state_bytes, zero >= 1, share),
                      .update_ticks = part(r, p->update_ticks, zero >= 1, share)};
    sum.values[share] = p->value_bytes;
    sum.gradients[share] = p->gradient_bytes;
    sum.parts[share] = p->is_part ? p->gradient_bytes : 0;
    return sum;
}

static void add(block_sums *to, block_sums more)
{
    for (int k = 0; k < N_SHARES; k++) {
        to->values[k] += more.values[k];
        to->gradients[k] += more.gradients[k];
        to->parts[k] += more.parts[k];
    }
    to->value_bytes += more.value_bytes;
    to->gradient_bytes += more.gradient_bytes;
    to->state_bytes += more.state_bytes;
    to->update_ticks += more.update_ticks;
}

static mp_status sum_parameters(player *x, mp_pool *pool, mp_error *err)
{
    const mp_load *load = x->request->load;
    x->sums = mp_pool_alloc(pool, (size_t)load->n_blocks, sizeof *x->sums);
    x->options = mp_pool_alloc(pool, (size_t)load->n_blocks, sizeof *x->options);
    x->tied = mp_pool_alloc(pool, load->n_parameters + 1, sizeof *x->tied);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    for (size_t k = 0; k < load->n_parameters; k++) {
        const mp_parameter_load *p = &load->parameters[k];
        add(&x->sums[p->first], sums_of(x->request, p));
        if (p->last > p->first) x->tied[x->n_tied++] = (int)k;
    }
    return MP_OK;
}

/* Returns the sums of the parameters that a stage is the first to read. */
static block_sums own_sums(const player *x, const mp_stage *stage)
{
    block_sums sum = {0};
    for (int b = stage->begin; b < stage->end; b++) add(&sum, x->sums[b]);
    return sum;
}

/* Returns the bytes of a block's parameters that are there in part, and gathered for it. */
static int64_t gathered_bytes(const player *x, int block)
{
    int64_t bytes = 0;
    for (int k = 0; k < N_SHARES; k++)
        if (group_of(x->request, MP_DIM_SHARD, k).n > 1) bytes += x->sums[block].values[k];
    return bytes;
}

/* Adds up what is always there, and what the exchange of parameters and gradients takes beside it. */
static void hold_parameters(const player *x, mp_stage *stage)
{
    const mp_step_request *r = x->request;
    const int zero = r->ranks->mesh.zero;
    int64_t gathered = 0;
    block_sums sum = own_sums(x, stage);
    for (size_t k = 0; k < x->n_tied; k++) {
        const mp_parameter_load *p = &r->load->parameters[x->tied[k]];
        const bool is_counted = p->first >= stage->begin && p->first < stage->end;
        if (!is_counted && p->last >= stage->begin && p->last < stage->end) add(&sum, sums_of(r, p));
    }
    stage->parameter_bytes = sum.value_bytes;
    stage->gradient_bytes = sum.gradient_bytes;
    stage->state_bytes = sum.state_bytes;
    for (int b = stage->begin; b < stage->end && zero == 3; b++) /* a block's, and the next one's, which are on their way */
        gathered = larger(gathered, 2 * gathered_bytes(x, b));
    const int64_t bucket = r->ranks->bucket_bytes ? r->ranks->bucket_bytes : MP_BUCKET_BYTES;
    stage->buffer_bytes = r->load->other_bytes + (zero == 3 ? gathered : zero == 2 ? 2 * bucket : 0);
}

/* A rank's stages, and what it holds. */
typedef struct holder {
    mp_stage *stages;
    int first, n, step; /* stages first, first + step, ... */
    int64_t always;     /* parameters, gradients, state and buffers of all of them */
} holder;

/* Adds up what the rank keeps as its options are now, and finds the block whose next option frees the most bytes per tick; -1:
 * none has a next one. */
static int look_over(const player *x, const holder *rank)
{
    const mp_load *load = x->request->load;
    int64_t transient = 0, held = rank->always;
    double best = -1;
    int chosen = -1;
    for (int i = rank->first; i < rank->n; i += rank->step) {
        mp_stage *stage = &rank->stages[i];
        int64_t kept = 0, most = 0, waiting = 0;
        for (int b = stage->begin; b < stage->end; b++) {
            const mp_block_load *block = &load->blocks[b];
            const mp_load_option *o = &block->options[x->options[b]], *next = o + 1;
            most += block->options[0].kept_bytes;
            kept += o->kept_bytes;
            waiting += block->weights_bytes;
            transient = larger(transient, o->transient_bytes);
            if (x->options[b] + 1 >= block->n_options) continue;
            const double freed = (double)stage->in_flight * (double)(o->kept_bytes - next->kept_bytes),
                         ticks = (double)(next->extra_ticks - o->extra_ticks);
            const double worth = ticks > 0 ? freed / ticks : 1e300;
            if (worth <= best) continue;
            best = worth;
            chosen = b;
        }
        stage->activation_bytes = stage->in_flight * kept + stage->waiting * waiting;
        stage->recomputed_bytes = most - kept;
        held += stage->activation_bytes;
    }
    for (int i = rank->first; i < rank->n; i += rank->step) {
        rank->stages[i].activation_bytes += transient;
        rank->stages[i].peak_bytes = held + transient;
    }
    return chosen;
}

/* Chooses an option for each block of a rank: the first of all, then, while that is too much, the next one of the block where
 * it frees the most bytes per tick. Returns false if all that can be recomputed is not enough. */
static bool keep_within(const player *x, const holder *rank)
{
    const mp_load *load = x->request->load;
    const int64_t memory_bytes = x->request->memory_bytes;
    for (int i = rank->first; i < rank->n; i += rank->step)
        for (int b = rank->stages[i].begin; b < rank->stages[i].end; b++) x->options[b] = 0;
    int chosen = look_over(x, rank);
    while (rank->stages[rank->first].peak_bytes > memory_bytes && chosen >= 0) {
        x->options[chosen]++;
        chosen = look_over(x, rank);
    }
    for (int i = rank->first; i < rank->n; i += rank->step) {
        mp_stage *stage = &rank->stages[i];
        int64_t extra = 0;
        for (int b = stage->begin; b < stage->end; b++) extra += load->blocks[b].options[x->options[b]].extra_ticks;
        stage->extra_seconds = (double)extra * load->tick_seconds;
    }
    return rank->stages[rank->first].peak_bytes <= memory_bytes;
}

/* ---- how long it takes ---- */

/* Sets the seconds of a micro-batch, with what gathering parameters adds to them, and returns those of the update. */
static double time_stage(const player *x, mp_stage *stage)
{
    const mp_step_request *r = x->request;
    const mp_load *load = r->load;
    int64_t forward = 0, backward = 0;
    const bool shares_all = r->ranks->mesh.zero == 3, spreads = r->ranks->mesh.size[MP_DIM_EP] > 1;
    const block_sums sum = own_sums(x, stage);
    double gather = 0, scatter = 0, first = 0, last = 0; /* of all, of the first gather and the last scatter */
    for (int b = stage->begin; b < stage->end; b++) {
        forward += load->blocks[b].forward_ticks;
        backward += load->blocks[b].backward_ticks;
    }
    stage->forward_seconds = (double)forward * load->tick_seconds;
    stage->backward_seconds = (double)backward * load->tick_seconds + stage->extra_seconds;
    for (int k = 0; k < (spreads ? N_SHARES : SPREAD) && shares_all; k++) {
        const mp_rank_group shards = group_of(r, MP_DIM_SHARD, k);
        const int64_t values = sum.values[k], gradients = sum.gradients[k];
        const int64_t n_gathers = gathers(r, stage, values), n_scatters = gathers(r, stage, gradients);
        const double in = seconds_of(r, MP_ALL_GATHER, shards, values, n_gathers),
                     out = seconds_of(r, MP_REDUCE_SCATTER, shards, gradients, n_scatters);
        gather += in;
        scatter += out;
        first = later(first, in / (double)n_gathers);
        last = later(last, out / (double)n_scatters);
        stage->sent_bytes += r->n_micro_batches * (2 * mp_collective_sent_bytes(MP_ALL_GATHER, shards.n, values) +
                                                   mp_collective_sent_bytes(MP_REDUCE_SCATTER, shards.n, gradients));
    }
    if (shares_all) { /* beside compute, as long as that lasts */
        const double slower_forward = slower(r, stage->forward_seconds, gather),
                     slower_backward = slower(r, stage->backward_seconds, gather + scatter);
        stage->forward_seconds = later(slower_forward, gather) + first;
        stage->backward_seconds = later(slower_backward, gather + scatter) + last;
    }
    return (double)sum.update_ticks * load->tick_seconds;
}

/* Adds the seconds in which a stage's gradients are summed, and updated parameters gathered, of one share of them; *last: of
 * the bucket that the last node completes. */
static void add_exchange(const player *x, mp_stage *stage, int share, double *sums, double *last, double *gather)
{
    const mp_step_request *r = x->request;
    const mp_mesh *mesh = &r->ranks->mesh;
    const mp_rank_group shards = group_of(r, MP_DIM_SHARD, share), copies = group_of(r, MP_DIM_DP, share),
                        split = mp_mesh_group(mesh, MP_DIM_TP);
    const block_sums sum = own_sums(x, stage);
    const int64_t values = sum.values[share], gradients = sum.gradients[share];
    const int64_t left = part(r, gradients, mesh->zero > 0, share), parts = part(r, sum.parts[share], mesh->zero > 0, share);
    const int64_t n = buckets(r, gradients);
    double seconds = seconds_of(r, MP_ALL_REDUCE, copies, left, n);
    if (parts) seconds += seconds_of(r, MP_ALL_REDUCE, split, parts, buckets(r, parts));
    stage->sent_bytes +=
        mp_collective_sent_bytes(MP_ALL_REDUCE, copies.n, left) + mp_collective_sent_bytes(MP_ALL_REDUCE, split.n, parts);
    if (mesh->zero == 1 || mesh->zero == 2) {
        seconds += seconds_of(r, MP_REDUCE_SCATTER, shards, gradients, n);
        *gather += seconds_of(r, MP_ALL_GATHER, shards, values, n);
        stage->sent_bytes += mp_collective_sent_bytes(MP_REDUCE_SCATTER, shards.n, gradients) +
                             mp_collective_sent_bytes(MP_ALL_GATHER, shards.n, values);
    }
    *sums += seconds;
    *last = later(*last, seconds / (double)n);
}

/* Returns the seconds behind a stage's last backward in which gradients are summed, and updated parameters gathered. */
static double exchange_of(const player *x, mp_stage *stage)
{
    double sums = 0, last = 0, gather = 0;
    for (int k = 0; k < N_SHARES; k++)
        if (k == COMMON || x->request->ranks->mesh.size[MP_DIM_EP] > 1) add_exchange(x, stage, k, &sums, &last, &gather);
    const double longer = slower(x->request, stage->backward_seconds, sums) - stage->backward_seconds;
    return later(last, sums - stage->backward_seconds) + longer + gather;
}

/* Fills in what a rank holds, and whether that fits. */
static bool hold(const player *x, mp_stage *stages, int rank)
{
    const int step = (int)n_ranks(x->request);
    holder h = {.stages = stages, .first = rank, .n = (int)n_stages(x->request), .step = step};
    int64_t buffers = 0;
    for (int i = rank; i < h.n; i += step) {
        mp_stage *stage = &stages[i];
        *stage = (mp_stage){.begin = stage->begin, .end = stage->end, .in_flight = stage->in_flight, .waiting = stage->waiting};
        hold_parameters(x, stage);
        h.always += stage->parameter_bytes + stage->gradient_bytes + stage->state_bytes;
        buffers = larger(buffers, stage->buffer_bytes);
    }
    h.always += buffers;
    return keep_within(x, &h);
}

/* Where a stage is over the memory, hands a block of it to the neighbour that holds less, again and again; each stage that
 * cannot take part any more ends it. Returns whether all fit. */
static bool relieve(const player *x, mp_stage *stages, int n)
{
    const int64_t memory_bytes = x->request->memory_bytes;
    for (int round = 0; round < 2 * n; round++) {
        int full = -1;
        for (int i = 0; i < n; i++)
            if (stages[i].peak_bytes > memory_bytes && (full < 0 || stages[i].peak_bytes > stages[full].peak_bytes)) full = i;
        if (full < 0) return true;
        const bool has_left = full > 0, has_right = full + 1 < n;
        const bool goes_left = has_left && (!has_right || stages[full - 1].peak_bytes < stages[full + 1].peak_bytes);
        if (stages[full].end - stages[full].begin < 2 || !(has_left || has_right)) return false;
        if (goes_left)
            stages[full - 1].end = ++stages[full].begin;
        else
            stages[full + 1].begin = --stages[full].end;
        const int ranks = (int)n_ranks(x->request);
        hold(x, stages, full % ranks);
        hold(x, stages, (goes_left ? full - 1 : full + 1) % ranks);
    }
    return false;
}

/* Returns the seconds of a micro-batch's backward that make gradients of parameters, which may wait. */
static double weights_of(const player *x, const mp_stage *stage)
{
    int64_t ticks = 0;
    for (int b = stage->begin; b < stage->end; b++) ticks += x->request->load->blocks[b].weights_ticks;
    return (double)ticks * x->request->load->tick_seconds;
}

/* Says how many micro-batches each chunk of a rank holds when it holds the most. */
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

mp_status mp_step_play(const mp_step_request *r, mp_mesh_choice *out, bool *fits, mp_error *err)
{
    const mp_load *load = r->load;
    const int n = (int)n_stages(r), ranks = (int)n_ranks(r);
    const int64_t m = r->n_micro_batches;
    const mp_pipeline_shape shape = {
        .schedule = r->schedule, .n_ranks = ranks, .n_chunks = (int)r->n_chunks, .n_micro_batches = m};
    mp_stage *stages = out->stages;
    MP_OWNED mp_stage_seconds *seconds = mp_alloc((size_t)n, sizeof *seconds);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_schedule_free) mp_played *played = NULL;
    player x = {.request = r};
    if (!seconds) return MP_NO_MEMORY(err);
    MP_CHECK(sum_parameters(&x, pool, err));
    memset(stages, 0, (size_t)n * sizeof *stages);
    out->n_stages = (size_t)n;
    out->peak_bytes = 0;
    out->exposed_seconds = 0;
    *fits = true;
    cut(load, n, stages);
    for (int i = 0; i < ranks; i++) {
        MP_CHECK(count_flight(&shape, i, stages, err));
        *fits &= hold(&x, stages, i);
    }
    if (!*fits) *fits = relieve(&x, stages, n);
    for (int i = 0; i < n; i++) {
        mp_stage *stage = &stages[i];
        out->peak_bytes = larger(out->peak_bytes, stage->peak_bytes);
        const double update = time_stage(&x, stage);
        const int64_t handed = i + 1 < n ? load->blocks[stage->end - 1].output_bytes : 0;
        stage->sent_bytes += m * handed;
        const double exchange = exchange_of(&x, stage), waits = weights_of(&x, stage);
        out->exposed_seconds = later(out->exposed_seconds, exchange);
        seconds[i] = (mp_stage_seconds){
            .forward = stage->forward_seconds,
            .backward = stage->backward_seconds - waits,
            .weights = waits,
            .send = handed ? seconds_of(r, MP_SEND, mp_mesh_group(&r->ranks->mesh, MP_DIM_PP), handed, 1) : 0,
            .tail = exchange + update};
    }
    if (!*fits) return MP_OK;
    MP_CHECK(mp_schedule_play(&shape, seconds, &played, err));
    out->seconds = played->seconds;
    out->bubble_seconds = played->bubble_seconds;
    return MP_OK;
}
