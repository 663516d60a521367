/* recording_backend.c - calls with copies of their operands, kept while recording and run when replayed. */
#include "tests/cases/recording_backend.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_UPDATES = 256, MOST_ENTRIES = 4096 };

typedef struct entry {
    enum { CALL, ADD, COPY, UPDATE, CLIP, ISSUE, ISSUED, WAIT } what;
    int mark;
    const mp_call *call;
    mp_operands operands; /* with arrays of its own */
    mp_run run;
    mp_dtype dtype;
    int64_t n;
    const void *from;
    void *to;
    mp_update updates[MOST_UPDATES];
    size_t n_updates;
    double clip_norm;
    struct entry *next;
} entry;

typedef struct recording {
    entry *first, **last;
    int n_entries;
} recording;

recording_counts recording_counted;
int recording_fails_after = -1;
bool recording_is_lost;
int64_t recording_limit = -1;
static int64_t allocated;
static const mp_backend *inner;
static mp_backend ours;
static recording *current; /* NULL: nothing is being recorded */
static struct {
    uint64_t seed;
    uint32_t step;
    mp_update_factors factors;
    bool has_factors;
} values;

static entry *put(int what)
{
    entry *e = calloc(1, sizeof *e);
    if (!e) abort();
    e->what = what;
    *current->last = e;
    current->last = &e->next;
    current->n_entries++;
    return e;
}

static void used(void)
{
    recording_counted.n_faults += current != NULL;
}

static mp_array *arrays_of(const mp_array *from, int n)
{
    mp_array *list = from ? calloc((size_t)n + 1, sizeof *list) : NULL;
    if (list) memcpy(list, from, (size_t)n * sizeof *list);
    return list;
}

static mp_status run_call(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_call *kept = call->state;
    if (!current) return kept->run(kept, x, run, err);
    if (recording_fails_after >= 0 && current->n_entries >= recording_fails_after)
        return MP_FAIL(err, MP_IO, "the library has failed");
    entry *e = put(CALL);
    e->call = kept;
    e->run = *run;
    e->operands = *x;
    e->operands.in = arrays_of(x->in, x->n_in);
    e->operands.out = arrays_of(x->out, x->n_out);
    e->operands.d_in = arrays_of(x->d_in, x->n_in);
    e->operands.d_out = arrays_of(x->d_out, x->n_out);
    return MP_OK;
}

static void release_call(mp_call *call)
{
    mp_call_release(call->state);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_kernel *kernel = inner->kernel(x->op);
    mp_prepare with = x->is_backward ? kernel->backward : kernel->forward;
    mp_call *kept = NULL;
    if (!with) return MP_NO_KERNEL(x, err, "its gradient");
    MP_REQUIRE(kept = mp_alloc(1, sizeof *kept), err, MP_NOMEM, "out of memory");
    MP_TRY(with(x, kept, err));
    *call = (mp_call){
        .run = run_call, .release = release_call, .state = kept, .workspace_bytes = kept->workspace_bytes, .adds = kept->adds};
    kept = NULL;
done:
    if (kept) mp_call_release(kept);
    mp_free(kept);
    return st;
}

static const mp_kernel *kernel(const mp_operator *op)
{
    static const mp_kernel row = {"any", "", prepare, prepare};
    return inner->kernel(op) ? &row : NULL;
}

static void begin(uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    used();
    values.seed = seed;
    values.step = step;
    values.has_factors = factors;
    if (factors) values.factors = *factors;
    inner->begin(seed, step, factors);
}

static void add(mp_dtype dtype, int64_t n, const void *from, void *to)
{
    if (!current) {
        inner->add(dtype, n, from, to);
        return;
    }
    entry *e = put(ADD);
    e->dtype = dtype;
    e->n = n;
    e->from = from;
    e->to = to;
}

static void copy(void *to, const void *from, int64_t bytes)
{
    if (!current) {
        inner->copy(to, from, bytes);
        return;
    }
    entry *e = put(COPY);
    e->n = bytes;
    e->from = from;
    e->to = to;
}

static void update(mp_update *updates, size_t n, const mp_update_factors *factors)
{
    if (!current) {
        inner->update(updates, n, factors);
        return;
    }
    entry *e = put(UPDATE);
    if (n > MOST_UPDATES || !values.has_factors) recording_counted.n_faults++;
    e->n_updates = n < MOST_UPDATES ? n : MOST_UPDATES;
    memcpy(e->updates, updates, e->n_updates * sizeof *updates);
}

static void clip(const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor)
{
    if (!current) {
        inner->clip(gradients, n, clip_norm, workspace, factor);
        return;
    }
    entry *e = put(CLIP);
    recording_counted.n_faults += n > MOST_UPDATES;
    e->n_updates = n < MOST_UPDATES ? n : MOST_UPDATES;
    memcpy(e->updates, gradients, e->n_updates * sizeof *gradients);
    e->clip_norm = clip_norm;
    e->from = workspace;
    e->to = factor;
}

static mp_status side_begin(mp_error *err)
{
    if (!current) return inner->side_begin(err);
    put(ISSUE);
    return MP_OK;
}

static mp_status side_end(int mark, mp_error *err)
{
    if (!current) return inner->side_end(mark, err);
    put(ISSUED)->mark = mark;
    return MP_OK;
}

static mp_status side_wait(int mark, mp_error *err)
{
    if (!current) return inner->side_wait(mark, err);
    put(WAIT)->mark = mark;
    return MP_OK;
}

static mp_status record(mp_error *err)
{
    used();
    if (!(current = calloc(1, sizeof *current))) return MP_FAIL(err, MP_NOMEM, "out of memory");
    current->last = &current->first;
    return MP_OK;
}

static void discard(void *memory)
{
    recording *r = memory;
    for (entry *e = r->first, *next; e; e = next) {
        next = e->next;
        free(e->operands.in);
        free(e->operands.out);
        free(e->operands.d_in);
        free(e->operands.d_out);
        free(e);
    }
    free(r);
    recording_counted.n_alive--;
}

static mp_status recorded(void **out, mp_error *err)
{
    (void)err;
    recording_counted.n_recorded++;
    recording_counted.n_alive++;
    *out = current;
    current = NULL;
    return MP_OK;
}

static mp_status replay(void *memory, mp_error *err)
{
    mp_status st = MP_OK;
    used();
    recording_counted.n_replayed++;
    for (entry *e = ((recording *)memory)->first; e; e = e->next) {
        mp_run run = {.seed = values.seed, .step = values.step, .first_run = e->run.first_run};
        switch (e->what) {
        case CALL:
            MP_TRY(e->call->run(e->call, &e->operands, &run, err));
            break;
        case ADD:
            inner->add(e->dtype, e->n, e->from, e->to);
            break;
        case COPY:
            inner->copy(e->to, e->from, e->n);
            break;
        case UPDATE:
            inner->update(e->updates, e->n_updates, &values.factors);
            break;
        case CLIP:
            inner->clip(e->updates, e->n_updates, e->clip_norm, (void *)e->from, e->to);
            break;
        case ISSUE:
            MP_TRY(inner->side_begin(err));
            break;
        case ISSUED:
            MP_TRY(inner->side_end(e->mark, err));
            break;
        case WAIT:
            MP_TRY(inner->side_wait(e->mark, err));
            break;
        }
    }
done:
    return st;
}

static void *allocate(int64_t bytes)
{
    used();
    if (recording_limit >= 0 && allocated + bytes > recording_limit) return NULL;
    allocated += bytes;
    return inner->allocate(bytes);
}

static void release(void *memory, int64_t bytes)
{
    if (memory) allocated -= bytes;
    inner->release(memory, bytes);
}

static mp_status memory_now(mp_backend_memory *now, mp_error *err)
{
    const int64_t total = INT64_C(1) << 40;
    (void)err;
    *now = (mp_backend_memory){total, total - RECORDING_IDLE_BYTES - allocated, -1};
    return MP_OK;
}

static void fill(void *memory, unsigned char byte, int64_t bytes)
{
    used();
    inner->fill(memory, byte, bytes);
}

static mp_status upload(const mp_array *host, const mp_array *there, mp_error *err)
{
    used();
    return inner->upload(host, there, err);
}

static mp_status download(const mp_array *there, const mp_array *host, mp_error *err)
{
    used();
    if (recording_is_lost) return MP_FAIL(err, MP_IO, "the device is lost");
    return inner->download(there, host, err);
}

static void wait_for_all(void)
{
    used();
    inner->wait();
}

const mp_backend *recording_backend(const mp_backend *of)
{
    inner = of;
    ours = *of;
    ours.kernel = kernel;
    ours.begin = begin;
    ours.record_begin = record;
    ours.record_end = recorded;
    ours.replay = replay;
    ours.discard = discard;
    ours.wait = wait_for_all;
    ours.add = add;
    if (of->side_begin) {
        ours.side_begin = side_begin;
        ours.side_end = side_end;
        ours.side_wait = side_wait;
    }
    ours.copy = copy;
    ours.update = update;
    ours.clip = clip;
    ours.allocate = allocate;
    ours.release = release;
    ours.memory = memory_now;
    ours.fill = fill;
    ours.upload = upload;
    ours.download = download;
    recording_counted = (recording_counts){0};
    recording_fails_after = -1;
    recording_is_lost = false;
    recording_limit = -1;
    allocated = 0;
    return &ours;
}
