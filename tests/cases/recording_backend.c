/* recording_backend.c - stores calls with copies of their operands while recording, and runs them at replay. */
#include "tests/cases/recording_backend.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UPDATES = 256, MOST_ENTRIES = 4096 };

typedef struct entry {
    enum { CALL, ADD, COPY, UPDATE, CLIP, ISSUE, ISSUED, WAIT, MESSAGE } what;
    int channel, mark;
    const mp_call *call;
    mp_operands operands; /* has its own arrays */
    mp_dtype dtype;
    int64_t n;
    const void *from;
    void *to;
    mp_update updates[MOST_UPDATES];
    size_t n_updates;
    double clip_norm;
    void (*run)(void *);
    struct entry *next;
} entry;

typedef struct recording {
    entry *first, **last;
    int n_entries;
} recording;

/* The recorder whose kernels this thread is preparing or running. */
static _Thread_local recorder *used;

/* Unchanged functions are the inner backend's and use its context. The recorder finds itself by its own address. */
static recorder *recorder_of(const mp_backend *self)
{
    return (recorder *)self;
}

static void use(const mp_backend *self)
{
    used = recorder_of(self);
    if (used->inner->use) used->inner->use(used->inner);
}

static entry *put(recorder *r, int what)
{
    entry *e = calloc(1, sizeof *e);
    if (!e) abort();
    e->what = what;
    *r->current->last = e;
    r->current->last = &e->next;
    r->current->n_entries++;
    return e;
}

/* Returns a backend's recorder. Counts a fault if it is recording, because the calling function is forbidden then. */
static recorder *idle(const mp_backend *self)
{
    recorder *r = recorder_of(self);
    r->counted.n_faults += r->current != NULL;
    return r;
}

static mp_array *arrays_of(const mp_array *from, int n)
{
    mp_array *list = from ? calloc((size_t)n + 1, sizeof *list) : NULL;
    if (list) memcpy(list, from, (size_t)n * sizeof *list);
    return list;
}

static mp_status run_call(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_call *kept = call->state;
    recorder *r = used;
    if (x->workspace) r->counted.n_faults += (uintptr_t)x->workspace % (uintptr_t)r->backend.alignment != 0;
    if (!r->current) return kept->run(kept, x, err);
    if (r->fails_after >= 0 && r->current->n_entries >= r->fails_after) return MP_FAIL(err, MP_IO, "the library has failed");
    entry *e = put(r, CALL);
    e->call = kept;
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

static void give_up(mp_call *kept)
{
    if (kept) mp_call_release(kept);
    mp_free(kept);
}
MP_OWNER(give_up, mp_call)

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_kernel *kernel = used->inner->kernel(used->inner, x->op);
    mp_prepare with = x->is_backward ? kernel->backward : kernel->forward;
    MP_OWNED_BY(give_up) mp_call *kept = NULL;
    if (!with) return MP_NO_KERNEL(x, err, "its gradient");
    MP_ENSURE(kept = mp_alloc(1, sizeof *kept), err, MP_NOMEM, "out of memory");
    MP_CHECK(with(x, kept, err));
    *call = (mp_call){
        .run = run_call, .release = release_call, .state = kept, .workspace_bytes = kept->workspace_bytes, .adds = kept->adds};
    kept = NULL;
    return MP_OK;
}

static const mp_kernel *kernel(const mp_backend *self, const mp_operator *op)
{
    const recorder *r = recorder_of(self);
    static const mp_kernel row = {"any", "", prepare, prepare};
    return r->inner->kernel(r->inner, op) ? &row : NULL;
}

static void begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    recorder *r = idle(self);
    r->seed = seed;
    r->step = step;
    r->has_factors = factors;
    if (factors) r->factors = *factors;
    r->inner->begin(r->inner, seed, step, factors);
}

static void add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to)
{
    recorder *r = recorder_of(self);
    if (!r->current) {
        r->inner->add(r->inner, dtype, n, from, to);
        return;
    }
    entry *e = put(r, ADD);
    e->dtype = dtype;
    e->n = n;
    e->from = from;
    e->to = to;
}

static void copy(const mp_backend *self, void *to, const void *from, int64_t bytes)
{
    recorder *r = recorder_of(self);
    if (!r->current) {
        r->inner->copy(r->inner, to, from, bytes);
        return;
    }
    entry *e = put(r, COPY);
    e->n = bytes;
    e->from = from;
    e->to = to;
}

static void update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors)
{
    recorder *r = recorder_of(self);
    if (!r->current) {
        r->inner->update(r->inner, updates, n, factors);
        return;
    }
    entry *e = put(r, UPDATE);
    if (n > MOST_UPDATES || !r->has_factors) r->counted.n_faults++;
    e->n_updates = n < MOST_UPDATES ? n : MOST_UPDATES;
    memcpy(e->updates, updates, e->n_updates * sizeof *updates);
}

static void clip(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor)
{
    recorder *r = recorder_of(self);
    if (!r->current) {
        r->inner->clip(r->inner, gradients, n, clip_norm, workspace, factor);
        return;
    }
    entry *e = put(r, CLIP);
    r->counted.n_faults += n > MOST_UPDATES;
    e->n_updates = n < MOST_UPDATES ? n : MOST_UPDATES;
    memcpy(e->updates, gradients, e->n_updates * sizeof *gradients);
    e->clip_norm = clip_norm;
    e->from = workspace;
    e->to = factor;
}

static void put_mark(recorder *r, int what, int channel, int mark)
{
    entry *e = put(r, what);
    e->channel = channel;
    e->mark = mark;
}

static mp_status side_begin(const mp_backend *self, int channel, mp_error *err)
{
    recorder *r = recorder_of(self);
    r->stream.channel = channel;
    if (!r->current) return r->inner->side_begin(r->inner, channel, err);
    put_mark(r, ISSUE, channel, -1);
    return MP_OK;
}

static mp_status side_end(const mp_backend *self, int channel, int mark, mp_error *err)
{
    recorder *r = recorder_of(self);
    r->stream.channel = 0;
    if (!r->current) return r->inner->side_end(r->inner, channel, mark, err);
    put_mark(r, ISSUED, channel, mark);
    return MP_OK;
}

static mp_status side_wait(const mp_backend *self, int channel, int mark, mp_error *err)
{
    recorder *r = recorder_of(self);
    if (!r->current) return r->inner->side_wait(r->inner, channel, mark, err);
    put_mark(r, WAIT, channel, mark);
    return MP_OK;
}

static void pass_on(recorder *r, void (*run)(void *), void *what)
{
    host_stream *inner = r->inner->stream(r->inner);
    inner->enqueue(inner, run, what);
}

static void enqueue(host_stream *stream, void (*run)(void *), void *what)
{
    recorder *r = (recorder *)((char *)stream - offsetof(recorder, stream));
    if (!r->current) {
        pass_on(r, run, what);
        return;
    }
    entry *e = put(r, MESSAGE);
    e->run = run;
    e->to = what;
}

static void *stream_of(const mp_backend *self)
{
    return &recorder_of(self)->stream;
}

static mp_status record(const mp_backend *self, mp_error *err)
{
    recorder *r = idle(self);
    if (!(r->current = calloc(1, sizeof *r->current))) return MP_FAIL(err, MP_NOMEM, "out of memory");
    r->current->last = &r->current->first;
    return MP_OK;
}

static void discard(const mp_backend *self, void *memory)
{
    recorder *r = recorder_of(self);
    recording *kept = memory;
    for (entry *e = kept->first, *next; e; e = next) {
        next = e->next;
        free(e->operands.in);
        free(e->operands.out);
        free(e->operands.d_in);
        free(e->operands.d_out);
        free(e);
    }
    free(kept);
    r->counted.n_alive--;
}

static mp_status recorded(const mp_backend *self, void **out, mp_error *err)
{
    recorder *r = recorder_of(self);
    (void)err;
    r->counted.n_recorded++;
    r->counted.n_alive++;
    *out = r->current;
    r->current = NULL;
    return MP_OK;
}

static mp_status replay(const mp_backend *self, void *memory, mp_error *err)
{
    recorder *r = idle(self);
    r->counted.n_replayed++;
    use(self);
    for (entry *e = ((recording *)memory)->first; e; e = e->next) {
        e->operands.run.seed = r->seed;
        e->operands.run.step = r->step;
        switch (e->what) {
        case CALL:
            MP_CHECK(e->call->run(e->call, &e->operands, err));
            break;
        case ADD:
            r->inner->add(r->inner, e->dtype, e->n, e->from, e->to);
            break;
        case COPY:
            r->inner->copy(r->inner, e->to, e->from, e->n);
            break;
        case UPDATE:
            r->inner->update(r->inner, e->updates, e->n_updates, &r->factors);
            break;
        case CLIP:
            r->inner->clip(r->inner, e->updates, e->n_updates, e->clip_norm, (void *)e->from, e->to);
            break;
        case ISSUE:
            MP_CHECK(r->inner->side_begin(r->inner, e->channel, err));
            break;
        case ISSUED:
            MP_CHECK(r->inner->side_end(r->inner, e->channel, e->mark, err));
            break;
        case WAIT:
            MP_CHECK(r->inner->side_wait(r->inner, e->channel, e->mark, err));
            break;
        case MESSAGE:
            pass_on(r, e->run, e->to);
            break;
        }
    }
    return MP_OK;
}

static void *allocate(const mp_backend *self, int64_t bytes)
{
    recorder *r = idle(self);
    if (r->limit >= 0 && r->allocated + bytes > r->limit) return NULL;
    r->allocated += bytes;
    return r->inner->allocate(r->inner, bytes);
}

static void release(const mp_backend *self, void *memory, int64_t bytes)
{
    recorder *r = recorder_of(self);
    if (memory) r->allocated -= bytes;
    r->inner->release(r->inner, memory, bytes);
}

static mp_status memory_now(const mp_backend *self, mp_backend_memory *now, mp_error *err)
{
    const recorder *r = recorder_of(self);
    const int64_t total = INT64_C(1) << 40;
    (void)err;
    *now = (mp_backend_memory){total, total - RECORDING_IDLE_BYTES - r->allocated, -1};
    return MP_OK;
}

static void fill(const mp_backend *self, void *memory, unsigned char byte, int64_t bytes)
{
    recorder *r = idle(self);
    r->inner->fill(r->inner, memory, byte, bytes);
}

static mp_status upload(const mp_backend *self, const mp_array *host, const mp_array *there, mp_error *err)
{
    recorder *r = idle(self);
    return r->inner->upload(r->inner, host, there, err);
}

static mp_status download(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err)
{
    recorder *r = idle(self);
    if (r->is_lost) return MP_FAIL(err, MP_IO, "the device is lost");
    return r->inner->download(r->inner, there, host, err);
}

static mp_status wait_for_all(const mp_backend *self, mp_error *err)
{
    recorder *r = idle(self);
    if (r->is_lost) return MP_FAIL(err, MP_IO, "the device is lost");
    return r->inner->wait(r->inner, err);
}

const mp_backend *recording_backend(recorder *r, const mp_backend *of)
{
    *r = (recorder){.backend = *of, .inner = of, .fails_after = -1, .limit = -1};
    mp_backend *b = &r->backend;
    b->use = use;
    b->close = NULL;
    b->kernel = kernel;
    b->chain = NULL; /* chains read the states of the inner calls, which this backend wraps */
    b->begin = begin;
    b->record_begin = record;
    b->record_end = recorded;
    b->replay = replay;
    b->discard = discard;
    b->wait = wait_for_all;
    b->add = add;
    if (of->side_begin) {
        b->side_begin = side_begin;
        b->side_end = side_end;
        b->side_wait = side_wait;
    }
    if (of->stream) {
        b->stream = stream_of;
        r->stream.enqueue = enqueue;
    }
    b->copy = copy;
    b->update = update;
    b->clip = clip;
    b->allocate = allocate;
    b->release = release;
    b->memory = memory_now;
    b->fill = fill;
    b->upload = upload;
    b->download = download;
    return b;
}
