/* stage_model.c - simulates one training step on a mesh. Computes the memory of each stage. Chooses the tensors that each block
 * keeps, and the tensors that are offloaded to the host. Simulates the copies that run parallel to compute: per block for
 * activations, per parameter for optimizer state. */
#include "planner/parallel/stage_model.h"

#include <math.h>

#include "estimator/base/integers.h"
#include "memplan/training.h"

/* Returns the ticks by which the recomputation of an option lengthens backward. PyTorch's exchanges of gradients over tp hide a
 * part of it (estimator/parallel/gradient_exchanges.c). */
static int64_t extra_ticks(const mp_stage_model *x, const mp_load_option *o)
{
    return o->extra_ticks - (x->request->ranks->rules == MP_RULES_PYTORCH ? o->hidden_ticks : 0);
}

/* ---- copies of activations and optimizer state to the host and back ---- */

static double copy_seconds(const mp_link *link, bool is_in, int64_t n, int64_t bytes)
{
    return (double)n * link->latency_seconds + (double)bytes / (is_in ? link->in_bytes_per_second : link->out_bytes_per_second);
}

double mp_stage_model_pass(const mp_stage_model *x, const mp_stage *stage, bool is_backward)
{
    const mp_load *load = x->request->load;
    /* clock: time at which compute has finished the blocks so far; sent: end of the most recent copy; before: end of the copy
     * before it */
    double clock = 0, sent = 0, before = 0;
    /* the backward pass visits the blocks in reverse order, but takes the same time */
    for (int b = stage->begin; b < stage->end; b++) {
        const mp_block_load *block = &load->blocks[b];
        const mp_load_option *o = &block->options[x->options[b]];
        const int64_t ticks = is_backward ? block->backward_ticks + extra_ticks(x, o) : block->forward_ticks;
        const bool is_copied = x->is_offloaded[b] && o->movable_bytes;
        if (is_copied) clock = fmax(clock, before);
        clock += (double)ticks * load->tick_seconds;
        if (!is_copied) continue;
        before = sent;
        sent = fmax(clock, sent) + copy_seconds(x->request->host.link, is_backward, o->n_movable, o->movable_bytes);
    }
    return fmax(clock, sent);
}

int64_t mp_stage_model_movable_state(const mp_step_request *r, const mp_parameter_load *p)
{
    const int64_t least = r->host.least_state_bytes ? r->host.least_state_bytes : MP_OFFLOAD_LEAST_BYTES;
    const int64_t bytes =
        mp_stage_model_part(r, p->state_bytes, r->ranks->mesh.zero >= 1, p->is_spread ? MP_SPREAD : MP_COMMON);
    return r->host.link && r->host.takes_state && bytes >= least ? bytes : 0;
}

/* True if a stage reads a parameter. *is_first: the stage is the first that reads it. */
static bool reads(const mp_stage *stage, const mp_parameter_load *p, bool *is_first)
{
    *is_first = p->first >= stage->begin && p->first < stage->end;
    return *is_first || (p->last >= stage->begin && p->last < stage->end);
}

/* Returns the most bytes of offloaded optimizer state that may be on the device at the same time. */
static int64_t window_of(const mp_stage_model *x, const mp_stage *stage, int64_t room_bytes)
{
    /* three parameters' states at once: one is being copied in, one is updated, one is being copied out */
    enum { AT_ONCE = 3 };
    int64_t largest = 0;
    bool is_first;
    for (size_t k = 0; k < x->request->load->n_parameters; k++) {
        const mp_parameter_load *p = &x->request->load->parameters[k];
        const int64_t moved = mp_stage_model_movable_state(x->request, p);
        if (reads(stage, p, &is_first) && moved > largest) largest = moved;
    }
    return AT_ONCE * largest < room_bytes ? AT_ONCE * largest : room_bytes;
}

mp_offloaded_updates mp_stage_model_offloaded_updates(const mp_stage_model *x, const mp_stage *stage, int64_t room_bytes)
{
    const mp_step_request *r = x->request;
    const mp_link *link = r->host.link;
    const int64_t window = window_of(x, stage, room_bytes);
    int64_t there = 0;
    size_t n = 0, n_gone = 0;
    double came = 0, clock = 0, sent = 0;
    mp_offloaded_updates out = {0};
    for (size_t k = 0; k < r->load->n_parameters; k++) {
        const mp_parameter_load *p = &r->load->parameters[k];
        const int share = p->is_spread ? MP_SPREAD : MP_COMMON;
        const double update =
            (double)mp_stage_model_part(r, p->update_ticks, r->ranks->mesh.zero >= 1, share) * r->load->tick_seconds;
        const int64_t moved = mp_stage_model_movable_state(r, p);
        bool is_first;
        if (!reads(stage, p, &is_first)) continue;
        if (!moved) {
            clock += is_first ? update : 0;
            continue;
        }
        for (; n_gone < n && there + moved > window; n_gone++) {
            came = fmax(came, x->gone[n_gone]);
            there -= x->brought[n_gone];
        }
        if (link->is_shared) came = fmax(came, sent);
        came += copy_seconds(link, true, 1, moved);
        clock = fmax(clock, came) + update;
        sent = fmax(clock, sent) + copy_seconds(link, false, 1, moved);
        x->gone[n] = sent;
        x->brought[n++] = moved;
        there += moved;
        out.moved_bytes += moved;
        if (there > out.largest_bytes) out.largest_bytes = there;
    }
    out.seconds = fmax(clock, sent);
    return out;
}

/* ---- the memory of the stages of a rank ---- */

static mp_block_sums sums_of(const mp_step_request *r, const mp_parameter_load *p)
{
    const int zero = r->ranks->mesh.zero, share = p->is_spread ? MP_SPREAD : MP_COMMON;
    mp_block_sums sum = {.value_bytes = mp_stage_model_part(r, p->widened * p->value_bytes, zero == 3, share),
                         .gradient_bytes = mp_stage_model_part(r, p->widened * p->gradient_bytes, zero >= 2, share),
                         .state_bytes = mp_stage_model_part(r, p->state_bytes, zero >= 1, share),
                         .update_ticks = mp_stage_model_part(r, p->update_ticks, zero >= 1, share)};
    sum.values[share] = p->value_bytes;
    sum.gradients[share] = p->gradient_bytes;
    sum.parts[share] = p->is_part ? p->gradient_bytes : 0;
    return sum;
}

static void add(mp_block_sums *to, mp_block_sums more)
{
    for (int k = 0; k < MP_N_SHARES; k++) {
        to->values[k] += more.values[k];
        to->gradients[k] += more.gradients[k];
        to->parts[k] += more.parts[k];
    }
    to->value_bytes += more.value_bytes;
    to->gradient_bytes += more.gradient_bytes;
    to->state_bytes += more.state_bytes;
    to->update_ticks += more.update_ticks;
}

mp_status mp_stage_model_new(const mp_step_request *request, mp_pool *pool, mp_stage_model *x, mp_error *err)
{
    const mp_load *load = request->load;
    *x = (mp_stage_model){.request = request};
    x->sums = mp_pool_alloc(pool, (size_t)load->n_blocks, sizeof *x->sums);
    x->options = mp_pool_alloc(pool, (size_t)load->n_blocks, sizeof *x->options);
    x->tied = mp_pool_alloc(pool, load->n_parameters + 1, sizeof *x->tied);
    x->is_offloaded = mp_pool_alloc(pool, (size_t)load->n_blocks, sizeof *x->is_offloaded);
    x->gone = mp_pool_alloc(pool, load->n_parameters + 1, sizeof *x->gone);
    x->brought = mp_pool_alloc(pool, load->n_parameters + 1, sizeof *x->brought);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    for (size_t k = 0; k < load->n_parameters; k++) {
        const mp_parameter_load *p = &load->parameters[k];
        add(&x->sums[p->first], sums_of(x->request, p));
        if (p->last > p->first) x->tied[x->n_tied++] = (int)k;
    }
    return MP_OK;
}

mp_block_sums mp_stage_model_sums(const mp_stage_model *x, const mp_stage *stage)
{
    mp_block_sums sum = {0};
    for (int b = stage->begin; b < stage->end; b++) add(&sum, x->sums[b]);
    return sum;
}

/* Returns the bytes of the parameters of a block that are sharded between steps and gathered while the block runs. */
static int64_t gathered_bytes(const mp_stage_model *x, int block)
{
    int64_t bytes = 0;
    for (int k = 0; k < MP_N_SHARES; k++)
        if (mp_stage_model_group(x->request, MP_DIM_SHARD, k).n > 1) bytes += x->sums[block].values[k];
    return bytes;
}

/* Sets the static bytes of a stage, and the bytes of the buffers through which ranks exchange parameters and gradients. */
static void hold_parameters(const mp_stage_model *x, mp_stage *stage)
{
    const mp_step_request *r = x->request;
    const int zero = r->ranks->mesh.zero;
    int64_t gathered = 0;
    mp_block_sums sum = mp_stage_model_sums(x, stage);
    for (size_t k = 0; k < x->n_tied; k++) {
        const mp_parameter_load *p = &r->load->parameters[x->tied[k]];
        const bool is_counted = p->first >= stage->begin && p->first < stage->end;
        if (!is_counted && p->last >= stage->begin && p->last < stage->end) add(&sum, sums_of(r, p));
    }
    stage->parameter_bytes = sum.value_bytes;
    stage->gradient_bytes = sum.gradient_bytes;
    stage->state_bytes = sum.state_bytes;
    /* two blocks at once: the block that runs, and the next block, whose parameters are prefetched */
    for (int b = stage->begin; b < stage->end && zero == 3; b++) gathered = mp_larger(gathered, 2 * gathered_bytes(x, b));
    const int64_t bucket = r->ranks->bucket_bytes ? r->ranks->bucket_bytes : MP_BUCKET_BYTES;
    stage->buffer_bytes = r->load->other_bytes + (zero == 3 ? gathered : zero == 2 ? 2 * bucket : 0);
}

/* The stages of one rank, and the memory that the rank needs in any case. */
typedef struct rank_memory {
    mp_stage *stages;
    int first, n, step; /* the rank's stages are stages[first], stages[first + step], ... with indices below n */
    int64_t always;     /* bytes of parameters, gradients, optimizer state and buffers of all stages of the rank */
    int64_t updates;    /* bytes of offloaded optimizer state that are on the device at the same time while updates run */
} rank_memory;

/* Computes the peak of the rank with the present recomputation options. Returns the block whose next option frees the most
 * bytes per tick; -1: no block has a further option. */
static int look_over(const mp_stage_model *x, const rank_memory *rank)
{
    const mp_load *load = x->request->load;
    int64_t transient = 0, moving = 0, held = 0;
    double best = -1;
    int chosen = -1;
    for (int i = rank->first; i < rank->n; i += rank->step) {
        mp_stage *stage = &rank->stages[i];
        int64_t kept = 0, moved = 0, most = 0, waiting = 0;
        for (int b = stage->begin; b < stage->end; b++) {
            const mp_block_load *block = &load->blocks[b];
            const mp_load_option *o = &block->options[x->options[b]], *next = o + 1;
            most += block->options[0].kept_bytes;
            kept += o->kept_bytes;
            if (x->is_offloaded[b]) {
                moved += o->movable_bytes;
                /* two blocks at once: one computes while the activations of the other are copied */
                moving = mp_larger(moving, 2 * o->movable_bytes);
            }
            waiting += block->weights_bytes;
            transient = mp_larger(transient, o->transient_bytes);
            if (x->options[b] + 1 >= block->n_options) continue;
            const int64_t fewer_moved = x->is_offloaded[b] ? o->movable_bytes - next->movable_bytes : 0;
            const double freed = (double)stage->in_flight * (double)(o->kept_bytes - next->kept_bytes - fewer_moved),
                         ticks = (double)(extra_ticks(x, next) - extra_ticks(x, o));
            const double worth = ticks > 0 ? freed / ticks : 1e300;
            if (worth <= best) continue;
            best = worth;
            chosen = b;
        }
        stage->activation_bytes = stage->in_flight * (kept - moved) + stage->waiting * waiting;
        stage->moved_bytes = moved;
        stage->host_bytes = stage->moved_state_bytes + stage->in_flight * moved;
        stage->recomputed_bytes = most - kept;
        held += stage->activation_bytes;
    }
    for (int i = rank->first; i < rank->n; i += rank->step) {
        rank->stages[i].activation_bytes += transient + moving;
        rank->stages[i].peak_bytes = rank->always + mp_larger(held + transient + moving, rank->updates);
    }
    return chosen;
}

/* Chooses a recomputation option for each block of a rank. All blocks start with their first option. While the rank exceeds the
 * memory, one block after the other moves to its next option: the block for which this frees the most bytes per tick. Returns
 * false if the rank exceeds the memory even with the last option of every block. */
static bool keep_within(const mp_stage_model *x, const rank_memory *rank)
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
        int64_t extra = 0, hidden = 0;
        for (int b = stage->begin; b < stage->end; b++) {
            const mp_load_option *o = &load->blocks[b].options[x->options[b]];
            extra += extra_ticks(x, o);
            hidden += o->extra_ticks - extra_ticks(x, o);
        }
        stage->extra_seconds = (double)extra * load->tick_seconds;
        stage->hidden_seconds = (double)hidden * load->tick_seconds;
    }
    return rank->stages[rank->first].peak_bytes <= memory_bytes;
}

/* ---- choice of the data that are offloaded ---- */

/* One way for a rank to offload data: whether it offloads optimizer state, and the number of blocks whose activations it
 * offloads. */
typedef struct choice {
    bool moves_state, fits;
    int n_offloaded;
    double seconds; /* seconds of a training step in which the rank is busy */
    int64_t peak_bytes;
} choice;

/* Places the optimizer state of a rank in host memory (`moves`) or on the device. */
static void move_state(const mp_stage_model *x, rank_memory *rank, bool moves)
{
    rank->updates = 0;
    for (int i = rank->first; i < rank->n; i += rank->step) {
        mp_stage *stage = &rank->stages[i];
        const int64_t moved = moves ? mp_stage_model_offloaded_updates(x, stage, INT64_MAX).moved_bytes : 0;
        rank->always += stage->moved_state_bytes - moved;
        stage->state_bytes += stage->moved_state_bytes - moved;
        stage->moved_state_bytes = moved;
    }
    for (int i = rank->first; i < rank->n && moves; i += rank->step) {
        mp_stage *stage = &rank->stages[i];
        const mp_offloaded_updates offloaded =
            mp_stage_model_offloaded_updates(x, stage, x->request->memory_bytes - rank->always);
        rank->updates = mp_larger(rank->updates, offloaded.largest_bytes);
        stage->update_seconds = offloaded.seconds;
    }
}

/* Offloads the activations of c->n_offloaded blocks of the rank, and sets the other fields of c. The offloaded blocks are
 * evenly spaced, so that the compute of the blocks between them hides the copies. */
static void try_offload(const mp_stage_model *x, rank_memory *rank, int n_blocks, choice *c)
{
    int64_t on_host = 0, ticks = 0;
    int n = 0;
    move_state(x, rank, c->moves_state);
    for (int i = rank->first; i < rank->n; i += rank->step)
        for (int b = rank->stages[i].begin; b < rank->stages[i].end; b++, n++)
            x->is_offloaded[b] = (n + 1) * c->n_offloaded / n_blocks > n * c->n_offloaded / n_blocks;
    c->fits = keep_within(x, rank);
    c->seconds = 0;
    c->peak_bytes = rank->stages[rank->first].peak_bytes;
    for (int i = rank->first; i < rank->n; i += rank->step) {
        const mp_stage *stage = &rank->stages[i];
        c->seconds +=
            (double)x->request->n_micro_batches * (mp_stage_model_pass(x, stage, false) + mp_stage_model_pass(x, stage, true));
        if (c->moves_state)
            c->seconds += stage->update_seconds;
        else
            ticks += mp_stage_model_sums(x, stage).update_ticks;
        on_host += stage->host_bytes;
    }
    c->seconds += (double)ticks * x->request->load->tick_seconds;
    if (!x->request->host.bytes || on_host <= x->request->host.bytes) return;
    c->fits = false;
    /* this choice of offloaded data exceeds the host's memory, so it must be ranked below all other choices */
    c->peak_bytes = INT64_MAX;
}

static bool is_better(const choice *a, const choice *b)
{
    if (a->fits != b->fits) return a->fits;
    return a->fits ? a->seconds < b->seconds : a->peak_bytes < b->peak_bytes;
}

/* Chooses the fastest way for a rank to offload data. Returns true if the rank then fits in memory. */
static bool offload_most_useful(const mp_stage_model *x, rank_memory *rank)
{
    enum { STEPS = 16 };
    choice best = {0};
    int n_blocks = 0;
    for (int i = rank->first; i < rank->n; i += rank->step) n_blocks += rank->stages[i].end - rank->stages[i].begin;
    try_offload(x, rank, n_blocks, &best);
    for (int k = 1; k < 2 * (STEPS + 1); k++) {
        choice c = {.moves_state = k > STEPS, .n_offloaded = k % (STEPS + 1) * n_blocks / STEPS};
        const bool is_new = k % (STEPS + 1) == 0 || c.n_offloaded > (k % (STEPS + 1) - 1) * n_blocks / STEPS;
        if (!is_new || (c.moves_state && !x->request->host.takes_state)) continue;
        try_offload(x, rank, n_blocks, &c);
        if (is_better(&c, &best)) best = c;
    }
    try_offload(x, rank, n_blocks, &best);
    return best.fits;
}

bool mp_stage_model_hold(const mp_stage_model *x, mp_stage *stages, int rank)
{
    const int step = (int)mp_stage_model_ranks(x->request);
    rank_memory h = {.stages = stages, .first = rank, .n = (int)mp_stage_model_stages(x->request), .step = step};
    int64_t buffers = 0;
    for (int i = rank; i < h.n; i += step) {
        mp_stage *stage = &stages[i];
        *stage = (mp_stage){.begin = stage->begin, .end = stage->end, .in_flight = stage->in_flight, .waiting = stage->waiting};
        hold_parameters(x, stage);
        h.always += stage->parameter_bytes + stage->gradient_bytes + stage->state_bytes;
        buffers = mp_larger(buffers, stage->buffer_bytes);
    }
    h.always += buffers;
    for (int i = rank; i < h.n; i += step)
        for (int b = stages[i].begin; b < stages[i].end; b++) x->is_offloaded[b] = false;
    const bool fits = keep_within(x, &h);
    double extra = 0;
    for (int i = rank; i < h.n; i += step) extra += stages[i].extra_seconds;
    return x->request->host.link && !(fits && extra == 0) ? offload_most_useful(x, &h) : fits;
}
