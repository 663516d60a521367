/* needs.c - the requests of a training step for PyTorch's caching allocator, and the memory of the process. */
#include "memplan/workloads/needs.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/training/training.h"
#include "memplan/workloads/caching_allocator.h"
#include "memplan/workloads/process_memory.h"

enum {
    N_STEPS = 3,       /* number of simulated steps: later steps reuse blocks of earlier ones */
    LIMIT_STEPS = 256, /* the search for the smallest sufficient memory is exact to 1/N of the reserved memory */
    MIB = 1 << 20
};
static const int64_t WORKSPACE = 8320 << 10; /* workspace of cuBLAS on a card without a row */

typedef struct requests {
    const mp_graph *graph;
    const mp_step *steps;
    const mp_timeline *timeline;
    size_t n, capacity;
    mp_memory_request *items;
    int64_t n_numbers;             /* number of blocks so far, and number of the next block */
    int64_t *numbers;              /* per span: its block; -1: none, or another span has taken over the block */
    int *spans;                    /* per storage: its current span; -1: none */
    int *ending, *next_ending;     /* per step: the first span that ends with it; per span: the next one; -1: none */
    int first_update, last_update; /* steps of the first and last update that run together after backward; -1: none */
    bool *is_held;                 /* per span: true if the training script keeps the block until its next forward has ended */
    int64_t *held;                 /* blocks that the script keeps */
    size_t n_held;
    int first_backward;             /* first step of backward; -1: none */
    int first_product[MP_N_PHASES]; /* per phase: the first step with a product; -1: none */
    int64_t workspace_bytes;        /* workspace of a cuBLAS handle */
    bool failed;
} requests;

static void put(requests *r, int64_t number, int64_t bytes)
{
    if (number < 0) return;
    if (!mp_grow(&r->items, &r->capacity, r->n + 1, sizeof *r->items)) r->failed = true;
    if (!r->failed) r->items[r->n++] = (mp_memory_request){number, bytes};
}

/* Returns the number of the new block; -1: 0 bytes were requested. */
static int64_t put_block(requests *r, int64_t bytes)
{
    if (bytes <= 0) return -1;
    put(r, r->n_numbers, bytes);
    return r->n_numbers++;
}

static int64_t bytes_of(const requests *r, int storage)
{
    const mp_storage *s = &r->graph->storages[storage];
    return s->tier != MP_TIER_DEVICE ? 0 : s->payload_bytes > 0 ? s->payload_bytes : s->bytes;
}

/* ---- updates ---- */

static int64_t n_temporaries(const char *optimizer)
{
    static const struct {
        const char *optimizer;
        int n;
    } rows[] = {
#define TEMPORARIES(optimizer, n) {optimizer, n},
#include "estimator/training/process.def"
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].optimizer, optimizer)) return rows[k].n;
    return 0;
}

/* Returns the storage of a kind that a step reads; -1: none. */
static int operand(const requests *r, int t, mp_kind kind)
{
    const mp_alternative *a = &r->graph->nodes[r->steps[t].node].alternatives[r->steps[t].alternative];
    for (size_t k = 0; k < a->n_reads; k++)
        if (r->graph->storages[a->reads[k]].kind == kind) return a->reads[k];
    return -1;
}

static mp_phase phase_of(const requests *r, int t)
{
    return r->graph->nodes[r->steps[t].node].phase;
}

/* True if a step updates a parameter. */
static bool is_update(const requests *r, int t)
{
    return phase_of(r, t) == MP_PHASE_UPDATE && operand(r, t, MP_KIND_PARAMETER) >= 0;
}

/* Returns the number of equal tensors in the optimizer's state of an update: its moments, and with a 16-bit parameter also an
 * fp32 copy of the parameter, which is twice as large as the parameter. */
static int64_t parts_of_state(const requests *r, int t, int64_t state_bytes)
{
    const int optimizer = mp_optimizer_find(r->graph->nodes[r->steps[t].node].op);
    const int64_t moments = optimizer < 0 ? 0 : mp_optimizer_moments((mp_optimizer)optimizer);
    const int64_t with_copy = moments + 1, copy_bytes = 2 * bytes_of(r, operand(r, t, MP_KIND_PARAMETER));
    return state_bytes == with_copy * copy_bytes ? with_copy : moments > 0 ? moments : 1;
}

/* Allocates the optimizer's state of all updates. */
static void put_states(requests *r)
{
    for (int t = 0; t < (int)r->timeline->n_steps; t++) {
        const int state = is_update(r, t) ? operand(r, t, MP_KIND_OPTIMIZER_STATE) : -1;
        const int64_t bytes = state < 0 ? 0 : bytes_of(r, state), parts = bytes ? parts_of_state(r, t, bytes) : 1;
        for (int64_t k = 0; k < parts; k++) put_block(r, bytes / parts);
    }
}

/* Allocates the temporaries of the updates from step `from` to step `to`. Returns the first number; the later ones follow. */
static int64_t put_temporaries(requests *r, int from, int to)
{
    const int64_t first = r->n_numbers;
    for (int t = from; t <= to; t++) {
        const int state = is_update(r, t) ? operand(r, t, MP_KIND_OPTIMIZER_STATE) : -1;
        const int64_t bytes = state < 0 ? 0 : r->graph->storages[state].payload_bytes;
        const int64_t n = bytes > 0 ? n_temporaries(r->graph->nodes[r->steps[t].node].op) : 0;
        for (int64_t k = 0; k < n; k++) put_block(r, bytes / parts_of_state(r, t, bytes));
    }
    return first;
}

static void free_blocks(requests *r, int64_t first, int64_t end)
{
    for (int64_t number = first; number < end; number++) put(r, number, 0);
}

/* ---- a step ---- */

/* Allocates the block of a span, or lets it take over the block of another span that ends with this step. */
static void begin_span(requests *r, int k)
{
    const mp_span *span = &r->timeline->spans[k];
    const int from = span->takes_over >= 0 ? r->spans[span->takes_over] : -1;
    if (from >= 0 && r->numbers[from] >= 0 && !r->is_held[from]) {
        r->numbers[k] = r->numbers[from];
        r->numbers[from] = -1;
    } else {
        r->numbers[k] = put_block(r, bytes_of(r, span->storage));
    }
    r->spans[span->storage] = k;
}

/* True if the gradient of a span exists until the last update has run, because the optimizer updates all parameters together.
 */
static bool waits_for_updates(const requests *r, int k, int t)
{
    return r->last_update >= 0 && t >= r->first_update && t < r->last_update &&
           r->graph->storages[r->timeline->spans[k].storage].kind == MP_KIND_GRADIENT;
}

static void end_spans(requests *r, int t)
{
    for (int k = r->ending[t]; k >= 0; k = r->next_ending[k])
        if (r->is_held[k])
            r->held[r->n_held++] = r->numbers[k];
        else if (!waits_for_updates(r, k, t))
            put(r, r->numbers[k], 0);
    for (int u = r->first_update; t == r->last_update && u < t; u++)
        for (int k = r->ending[u]; k >= 0; k = r->next_ending[k])
            if (waits_for_updates(r, k, u)) put(r, r->numbers[k], 0);
}

/* Frees the outputs of the previous step. The script's variables refer to these outputs until forward returns new outputs. */
static void release_outputs(requests *r, size_t n)
{
    for (size_t k = 0; k < n; k++) put(r, r->held[k], 0);
    memmove(r->held, r->held + n, (r->n_held - n) * sizeof *r->held);
    r->n_held -= n;
}

/* Appends the requests of one training step. The first one allocates the optimizer's state and the workspaces of cuBLAS. */
static void put_step(requests *r, bool is_first)
{
    const mp_timeline *timeline = r->timeline;
    int64_t first_temporary = 0, end_of_temporaries = 0;
    const size_t n_before = r->n_held;
    for (int t = 0, k = 0; t < (int)timeline->n_steps; t++) {
        const bool together = t == r->first_update, alone = r->first_update < 0 && is_update(r, t);
        if (t == r->first_backward) release_outputs(r, n_before);
        for (int p = 0; is_first && p < MP_N_PHASES; p++)
            if (r->first_product[p] == t) put_block(r, r->workspace_bytes);
        for (; k < (int)timeline->n_spans && timeline->spans[k].begin <= t; k++) begin_span(r, k);
        const mp_alternative *a = &r->graph->nodes[r->steps[t].node].alternatives[r->steps[t].alternative];
        const int64_t workspace = put_block(r, a->workspace_bytes);
        if (together && is_first) put_states(r);
        if (together || alone) {
            first_temporary = put_temporaries(r, t, together ? r->last_update : t);
            end_of_temporaries = r->n_numbers;
        }
        put(r, workspace, 0);
        if (alone || t == r->last_update) free_blocks(r, first_temporary, end_of_temporaries);
        end_spans(r, t);
    }
    if (r->first_backward < 0) release_outputs(r, n_before);
}

static void put_static(requests *r)
{
    for (int s = 0; s < (int)r->graph->n_storages; s++)
        if (mp_storage_is_static(&r->graph->storages[s]) && r->graph->storages[s].kind != MP_KIND_OPTIMIZER_STATE)
            put_block(r, bytes_of(r, s));
    if (r->first_update < 0) put_states(r);
}

/* Marks the first span of each output. No variable of the script refers to the recomputed values of later spans. */
static void mark_outputs(requests *r)
{
    for (size_t s = 0; s < r->graph->n_storages; s++) r->spans[s] = -1;
    for (int k = 0; k < (int)r->timeline->n_spans; k++) {
        const int s = r->timeline->spans[k].storage;
        r->is_held[k] = r->graph->storages[s].is_output && r->spans[s] < 0;
        r->spans[s] = k;
    }
}

/* Finds the updates that run together, the first products, and the spans that end with each step. */
static void prepare(requests *r, bool has_products)
{
    const int n = (int)r->timeline->n_steps;
    r->first_update = r->last_update = r->first_backward = -1;
    mark_outputs(r);
    for (int p = 0; p < MP_N_PHASES; p++) r->first_product[p] = -1;
    for (int t = 0; t < n; t++) r->ending[t] = -1;
    for (size_t s = 0; s < r->graph->n_storages; s++) r->spans[s] = -1;
    for (int t = 0; t < n; t++) {
        const mp_phase phase = phase_of(r, t);
        if (phase == MP_PHASE_BACKWARD && r->first_backward < 0) r->first_backward = t;
        if (is_update(r, t) && r->graph->fuse == MP_FUSE_NONE) {
            if (r->first_update < 0) r->first_update = t;
            r->last_update = t;
        }
        const bool is_product = has_products && r->graph->nodes[r->steps[t].node].flops > 0;
        if (is_product && r->first_product[phase] < 0) r->first_product[phase] = t;
    }
    for (int k = (int)r->timeline->n_spans - 1; k >= 0; k--) {
        const int last = r->timeline->spans[k].end - 1;
        r->next_ending[k] = r->ending[last];
        r->ending[last] = k;
    }
}

/* Serves the requests on a device with limited memory. *use is unchanged if a request is refused. */
static mp_status serve_within(const requests *r, int64_t limit, bool expandable, mp_allocator_use *use, bool *is_served,
                              mp_error *err)
{
    mp_allocator_settings settings = mp_allocator_defaults();
    mp_allocator_use found;
    settings.limit = limit;
    settings.expandable = expandable;
    MP_CHECK(mp_allocator_replay(&settings, r->items, r->n, NULL, &found, err));
    *is_served = found.refused < 0;
    if (*is_served) *use = found;
    return MP_OK;
}

/* Serves the requests without a limit. If the reserved memory exceeds `limit`, the function also tests limits, because a full
 * allocator frees cached blocks. *use then describes the smallest sufficient memory, but at least `limit`. *expandable_bytes
 * becomes the memory reserved with expandable segments, if only expandable segments run within `limit`; else -1. */
static mp_status serve_all(const requests *r, int64_t limit, mp_allocator_use *use, int64_t *expandable_bytes, mp_error *err)
{
    const int64_t unlimited = INT64_C(1) << 62;
    mp_allocator_use expandable = {.reserved_bytes = -1};
    bool is_served;
    *expandable_bytes = -1;
    MP_CHECK(serve_within(r, unlimited, false, use, &is_served, err));
    if (limit <= 0 || use->reserved_bytes <= limit) return MP_OK;
    int64_t low = limit > use->tensors_bytes ? limit : use->tensors_bytes, high = use->reserved_bytes;
    MP_CHECK(serve_within(r, low, false, use, &is_served, err));
    if (is_served) return MP_OK;
    MP_CHECK(serve_within(r, limit, true, &expandable, &is_served, err));
    *expandable_bytes = expandable.reserved_bytes;
    while (high - low > use->reserved_bytes / LIMIT_STEPS) {
        const int64_t middle = low + (high - low) / 2;
        MP_CHECK(serve_within(r, middle, false, use, &is_served, err));
        *(is_served ? &high : &low) = middle;
    }
    return MP_OK;
}

/* Simulates the allocator. `limit`: bytes of the card that the allocator may reserve so that 19 of 20 jobs run; 0: unknown. */
static mp_status simulate(const mp_graph *graph, const mp_step *steps, const mp_timeline *timeline, bool has_products,
                          int64_t workspace_bytes, int64_t limit, mp_needs *out, mp_error *err)
{
    MP_OWNED int64_t *numbers = mp_alloc(timeline->n_spans, sizeof *numbers);
    MP_OWNED int *spans = mp_alloc(graph->n_storages, sizeof *spans);
    MP_OWNED int *ending = mp_alloc(timeline->n_steps, sizeof *ending);
    MP_OWNED int *next = mp_alloc(timeline->n_spans, sizeof *next);
    MP_OWNED bool *is_held = mp_alloc(timeline->n_spans, sizeof *is_held);
    MP_OWNED int64_t *held = mp_alloc(2 * graph->n_storages, sizeof *held); /* the outputs of two steps */
    requests r = {.graph = graph,
                  .steps = steps,
                  .timeline = timeline,
                  .numbers = numbers,
                  .spans = spans,
                  .ending = ending,
                  .next_ending = next,
                  .is_held = is_held,
                  .held = held,
                  .workspace_bytes = workspace_bytes};
    MP_ENSURE(numbers && spans && ending && next && is_held && held, err, MP_NOMEM, "no memory for the requests of %zu steps",
              timeline->n_steps);
    prepare(&r, has_products);
    put_static(&r);
    for (int k = 0; k < N_STEPS; k++) put_step(&r, k == 0);
    mp_allocator_use use = {0};
    int64_t expandable_bytes = -1;
    const mp_status st = r.failed ? MP_FAIL(err, MP_NOMEM, "no memory for %zu requests", r.n)
                                  : serve_all(&r, limit, &use, &expandable_bytes, err);
    mp_free(r.items);
    out->tensors_bytes = use.tensors_bytes;
    out->reserved_bytes = use.reserved_bytes;
    out->expandable_bytes = expandable_bytes;
    return st;
}

/* ---- the process ---- */

int64_t mp_nccl_bytes(const char *network, int n_communicators)
{
    static const struct {
        const char *begins;
        int n;
    } rows[] = {
#define CHANNELS(begins, n) {begins, n},
#include "estimator/training/process.def"
    };
    static const int channel_mib =
#define CHANNEL(mib) mib
#include "estimator/training/process.def"
        ;
    size_t k = 0;
    while (k + 1 < sizeof rows / sizeof *rows && strncmp(rows[k].begins, network, strlen(rows[k].begins)) != 0) k++;
    return n_communicators > 0 ? (int64_t)n_communicators * rows[k].n * channel_mib * MIB : 0;
}

mp_status mp_needs_of(const mp_graph *graph, const mp_step *steps, const mp_timeline *timeline, const mp_needs_terms *terms,
                      mp_needs *out, mp_error *err)
{
    mp_process_memory m = {.workspace_bytes = WORKSPACE};
    const bool is_known = mp_process_memory_of(terms->card, terms->family, 0, &m);
    mp_needs needs = {.nccl_bytes = mp_nccl_bytes(terms->network, terms->n_communicators),
                      .process_bytes = -1,
                      .likely_bytes = -1,
                      .expandable_bytes = -1,
                      .card_bytes = terms->card_bytes ? terms->card_bytes : m.card_bytes};
    const int64_t room = mp_process_room(terms->card, terms->family, terms->card_bytes, needs.nccl_bytes);
    if (terms->arena_bytes >= 0)
        needs.tensors_bytes = needs.reserved_bytes = timeline->static_bytes + terms->arena_bytes;
    else
        MP_CHECK(simulate(graph, steps, timeline, terms->has_products, m.workspace_bytes, room > 0 ? room : 0, &needs, err));
    if (is_known && mp_process_memory_of(terms->card, terms->family, needs.reserved_bytes, &m)) {
        needs.process_bytes = m.process_bytes + needs.nccl_bytes;
        needs.likely_bytes = m.likely_bytes + needs.nccl_bytes;
        if (needs.expandable_bytes >= 0)
            needs.expandable_bytes += needs.expandable_bytes / 1000 * m.margin + m.context_bytes + needs.nccl_bytes;
        needs.n_jobs = m.n_jobs;
        needs.median_error = m.median_error;
    }
    needs.family = terms->family;
    *out = needs;
    return MP_OK;
}

int64_t mp_needs_room(const mp_needs *needs, int64_t tensors_bytes)
{
    const int64_t fixed = needs->process_bytes - needs->reserved_bytes, reserved = needs->reserved_bytes;
    if (needs->likely_bytes < 0 || needs->card_bytes <= fixed || reserved <= 0) return 0;
    const int64_t most =
        (int64_t)((double)(needs->card_bytes - fixed) * ((double)reserved / (double)(needs->likely_bytes - fixed)));
    if (reserved <= most) return most > reserved - tensors_bytes ? most - (reserved - tensors_bytes) : 0;
    return (int64_t)((double)most * ((double)tensors_bytes / (double)reserved));
}
