/* streams.c - the streams of the channels, timestamps, and the stream that uploads inputs. CUDA events synchronize the
 * streams; a recording (streams_recordings.c) turns the events into edges of a CUDA graph.
 *
 * A mark is a point in a channel's stream for which the first stream can wait. The marks of a channel reuse a few events in
 * turn. A reused event represents a later mark of the stream, and a wait for it includes the earlier marks. */
#include "executor/cuda/device/streams.h"

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/current.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "memplan/graph.h"
#include "memplan/memory.h"

enum { MARKS = 64 };

typedef struct side {
    cudaStream_t stream; /* stream of the channel; NULL: the channel has not been used */
    cudaEvent_t marks[MARKS];
} side;

struct mp_cuda_streams {
    cudaStream_t first, current;
    cudaEvent_t issue;
    side sides[MP_MAX_CHANNELS];
};

mp_status mp_cuda_streams_open(mp_cuda_streams **out, mp_error *err)
{
    mp_cuda_streams *s;
    MP_ENSURE(s = *out = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    MP_CUDA(cudaStreamCreateWithFlags(&s->first, cudaStreamNonBlocking), err);
    MP_CUDA(cudaEventCreateWithFlags(&s->issue, cudaEventDisableTiming), err);
    s->current = s->first;
    return MP_OK;
}

void mp_cuda_streams_close(mp_cuda_streams *s)
{
    if (!s) return;
    for (int c = 0; c < MP_MAX_CHANNELS; c++) {
        for (int k = 0; k < MARKS; k++)
            if (s->sides[c].marks[k]) cudaEventDestroy(s->sides[c].marks[k]);
        if (s->sides[c].stream) cudaStreamDestroy(s->sides[c].stream);
    }
    if (s->issue) cudaEventDestroy(s->issue);
    if (s->first) cudaStreamDestroy(s->first);
    mp_free(s);
}

cudaStream_t mp_cuda_stream(void)
{
    return mp_cuda_current()->streams->current;
}

cudaStream_t mp_cuda_main_stream(void)
{
    return mp_cuda_current()->streams->first;
}

/* Creates the stream and events of a channel at first use. The stream is created last, so an existing stream has all its
 * events. */
static mp_status open_side(side *x, mp_error *err)
{
    if (x->stream) return MP_OK;
    for (int k = 0; k < MARKS; k++)
        if (!x->marks[k]) MP_CUDA(cudaEventCreateWithFlags(&x->marks[k], cudaEventDisableTiming), err);
    MP_CUDA(cudaStreamCreateWithFlags(&x->stream, cudaStreamNonBlocking), err);
    return MP_OK;
}

mp_status mp_cuda_side_begin(const mp_backend *self, int channel, mp_error *err)
{
    mp_cuda_streams *s = mp_cuda_use(self)->streams;
    MP_CHECK(open_side(&s->sides[channel], err));
    MP_CUDA(cudaEventRecord(s->issue, s->first), err);
    MP_CUDA(cudaStreamWaitEvent(s->sides[channel].stream, s->issue, 0), err);
    s->current = s->sides[channel].stream;
    return MP_OK;
}

mp_status mp_cuda_side_end(const mp_backend *self, int channel, int mark, mp_error *err)
{
    mp_cuda_streams *s = mp_cuda_use(self)->streams;
    const side *x = &s->sides[channel];
    s->current = s->first;
    return mp_cuda_error(cudaEventRecord(x->marks[mark % MARKS], x->stream), "issuing work on a side stream", err);
}

mp_status mp_cuda_side_wait(const mp_backend *self, int channel, int mark, mp_error *err)
{
    const mp_cuda_streams *s = mp_cuda_use(self)->streams;
    return mp_cuda_error(cudaStreamWaitEvent(s->first, s->sides[channel].marks[mark % MARKS], 0), "waiting for a side stream",
                         err);
}

/* ---- timestamps: one CUDA event per timestamp, created when the timestamp's number is first used. */

struct mp_cuda_times {
    cudaEvent_t *events;
    size_t n, capacity;
};

mp_status mp_cuda_note_time(const mp_backend *self, int k, mp_error *err)
{
    mp_cuda_context *c = mp_cuda_use(self);
    mp_cuda_times *t = c->times;
    if (!t) MP_ENSURE(t = c->times = mp_alloc(1, sizeof *t), err, MP_NOMEM, "out of memory");
    MP_ENSURE(mp_grow(&t->events, &t->capacity, (size_t)k + 1, sizeof *t->events), err, MP_NOMEM, "out of memory");
    for (; t->n <= (size_t)k; t->n++) MP_CUDA(cudaEventCreate(&t->events[t->n]), err);
    MP_CUDA(cudaEventRecord(t->events[k], mp_cuda_main_stream()), err);
    return MP_OK;
}

mp_status mp_cuda_seconds_between(const mp_backend *self, int from, int to, double *seconds, mp_error *err)
{
    const mp_cuda_times *t = mp_cuda_use(self)->times;
    float milliseconds = 0;
    MP_CUDA(cudaEventSynchronize(t->events[to]), err);
    MP_CUDA(cudaEventElapsedTime(&milliseconds, t->events[from], t->events[to]), err);
    *seconds = (double)milliseconds / 1000;
    return MP_OK;
}

void mp_cuda_times_close(mp_cuda_times *t)
{
    if (!t) return;
    for (size_t k = 0; k < t->n; k++) cudaEventDestroy(t->events[k]);
    mp_free(t->events);
    mp_free(t);
}

/* ---- uploads from pinned memory while passes run. An upload writes to landing memory, a buffer on the device. An event makes
 * the upload wait until the previous batch has been copied from the landing memory to the inputs. */

struct mp_cuda_inputs {
    cudaStream_t stream;
    cudaEvent_t landed; /* event on the first stream, recorded after the uploaded batch has been copied to the inputs */
};

mp_status mp_cuda_inputs_open(mp_cuda_inputs **out, mp_error *err)
{
    mp_cuda_inputs *i;
    MP_ENSURE(i = *out = mp_alloc(1, sizeof *i), err, MP_NOMEM, "out of memory");
    MP_CUDA(cudaStreamCreateWithFlags(&i->stream, cudaStreamNonBlocking), err);
    MP_CUDA(cudaEventCreateWithFlags(&i->landed, cudaEventDisableTiming), err);
    return MP_OK;
}

void mp_cuda_inputs_close(mp_cuda_inputs *i)
{
    if (!i) return;
    if (i->landed) cudaEventDestroy(i->landed);
    if (i->stream) cudaStreamDestroy(i->stream);
    mp_free(i);
}

void *mp_cuda_pin(const mp_backend *self, int64_t bytes)
{
    void *memory = NULL;
    mp_cuda_use(self);
    if (cudaHostAlloc(&memory, bytes > 0 ? (size_t)bytes : 1, cudaHostAllocDefault) == cudaSuccess) return memory;
    cudaGetLastError(); /* clears CUDA's last error; otherwise the next launch would report it */
    return NULL;
}

void mp_cuda_unpin(const mp_backend *self, void *memory)
{
    mp_cuda_use(self);
    cudaFreeHost(memory);
}

mp_status mp_cuda_bring(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err)
{
    const mp_cuda_inputs *i = mp_cuda_use(self)->inputs;
    MP_CUDA(cudaStreamWaitEvent(i->stream, i->landed, 0), err);
    MP_CUDA(cudaMemcpyAsync(landing, pinned, (size_t)bytes, cudaMemcpyHostToDevice, i->stream), err);
    MP_CUDA(cudaStreamSynchronize(i->stream), err);
    return MP_OK;
}

mp_status mp_cuda_land(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err)
{
    const mp_cuda_inputs *i = mp_cuda_use(self)->inputs;
    MP_CUDA(cudaMemcpyAsync(to, landing, (size_t)bytes, cudaMemcpyDeviceToDevice, mp_cuda_main_stream()), err);
    MP_CUDA(cudaEventRecord(i->landed, mp_cuda_main_stream()), err);
    return MP_OK;
}
