/* link_of_device.c - times copies between a device and pinned memory: alone, and beside vector additions on another stream.
 * Copies use the same side streams as the copies of a plan.
 *
 * The timed work is enqueued behind some milliseconds of other work, so that the times do not include the host's enqueueing. */
#include <math.h>

#include "estimator/base/clock.h"
#include "executor/tiers/link.h"

enum { OUT = MP_CHANNEL_SECOND_STREAM + 1, BACK, COMPUTE };
enum {
    MOST = MP_LINK_LEAST << 2 * (MP_LINK_SIZES - 1),
    ROOM = 2 * MOST,
    VECTOR = 128 << 20, /* bytes of each of two vectors in memory, larger than the caches */
    CACHED = 2 << 20,   /* bytes of each of two vectors that fit in caches */
    PASSES = 20, /* number of timed passes over vectors in memory; passes over cached vectors process as many bytes in total */
    AHEAD = 8    /* number of untimed passes that are enqueued before the timed work */
};

typedef struct device_link {
    const mp_backend *backend;
    char *memory, *pinned; /* memory: device memory for two vectors and a buffer for copies; pinned: host memory for copies */
    int64_t at;            /* offset of the next measured copy in `pinned` and in the device's buffer */
    int mark;
    double times[3]; /* host times of the start and end of a measurement, for a backend without timestamps */
} device_link;

static void end(device_link *l)
{
    if (l->pinned) l->backend->unpin(l->backend, l->pinned);
    if (l->memory) l->backend->release(l->backend, l->memory, 2 * (int64_t)VECTOR + ROOM);
}

static mp_status note(device_link *l, int k, mp_error *err)
{
    if (l->backend->note_time) return l->backend->note_time(l->backend, k, err);
    MP_CHECK(l->backend->wait(l->backend, err));
    l->times[k] = mp_clock_now();
    return MP_OK;
}

static mp_status between(const device_link *l, int from, int to, double *seconds, mp_error *err)
{
    if (l->backend->note_time) return l->backend->seconds_between(l->backend, from, to, seconds, err);
    *seconds = l->times[to] - l->times[from];
    return MP_OK;
}

/* Adds one vector to the other, n_passes times. in_memory: the vectors are larger than the caches; otherwise they fit in the
 * caches. */
static void add(const device_link *l, bool in_memory, int64_t n_passes)
{
    const int64_t bytes = in_memory ? VECTOR : CACHED;
    for (int64_t k = 0; k < n_passes * (VECTOR / bytes); k++)
        l->backend->add(l->backend, MP_DTYPE_FLOAT, bytes / (int64_t)sizeof(float), l->memory, l->memory + VECTOR);
}

static mp_status issue_copies(device_link *l, bool is_out, int64_t bytes, int64_t n, mp_error *err)
{
    const mp_backend *b = l->backend;
    MP_CHECK(b->side_begin(b, is_out ? OUT : BACK, err));
    for (int64_t k = 0; k < n; k++) {
        const int64_t offset = l->at + bytes <= ROOM ? l->at : 0;
        char *there = l->memory + 2 * (int64_t)VECTOR + offset, *here = l->pinned + offset;
        l->at = offset + bytes;
        b->copy(b, is_out ? here : there, is_out ? there : here, bytes);
    }
    return b->side_end(b, is_out ? OUT : BACK, ++l->mark, err);
}

static mp_status issue_passes(device_link *l, bool in_memory, int64_t n, mp_error *err)
{
    MP_CHECK(l->backend->side_begin(l->backend, COMPUTE, err));
    add(l, in_memory, n);
    return l->backend->side_end(l->backend, COMPUTE, ++l->mark, err);
}

static mp_status start(device_link *l, mp_error *err)
{
    l->mark = 0;
    l->backend->begin(l->backend, 0, 0, NULL);
    add(l, true, AHEAD);
    return note(l, 0, err);
}

static mp_status stop(const device_link *l, double *seconds, mp_error *err)
{
    MP_CHECK(between(l, 0, 1, seconds, err));
    return l->backend->wait(l->backend, err);
}

/* Times n copies in one direction; with `both`, n copies in each direction at once. */
static mp_status time_copies(device_link *l, int64_t bytes, int64_t n, bool is_out, bool both, double *seconds, mp_error *err)
{
    int marks[2];
    MP_CHECK(start(l, err));
    for (int k = 0; k <= both; k++) {
        MP_CHECK(issue_copies(l, is_out != k, bytes, n, err));
        marks[k] = l->mark;
    }
    for (int k = 0; k <= both; k++) MP_CHECK(l->backend->side_wait(l->backend, is_out != k ? OUT : BACK, marks[k], err));
    MP_CHECK(note(l, 1, err));
    return stop(l, seconds, err);
}

static mp_status time_copy(void *link, int64_t bytes, bool is_out, bool both, double *seconds, mp_error *err)
{
    return time_copies(link, bytes, 1, is_out, both, seconds, err);
}

static mp_status time_passes(device_link *l, bool in_memory, int64_t n, double *seconds, mp_error *err)
{
    MP_CHECK(start(l, err));
    MP_CHECK(issue_passes(l, in_memory, n, err));
    MP_CHECK(l->backend->side_wait(l->backend, COMPUTE, l->mark, err));
    MP_CHECK(note(l, 1, err));
    return stop(l, seconds, err);
}

/* Runs passes and copies in both directions at once. Times the copies if is_copy, else the passes. The caller must request
 * enough repetitions of the operation that is not timed, so that it runs during the whole measurement. */
static mp_status time_both(device_link *l, bool in_memory, int64_t n_passes, int64_t n_copies, bool is_copy, double *seconds,
                           mp_error *err)
{
    const mp_backend *b = l->backend;
    MP_CHECK(start(l, err));
    MP_CHECK(issue_copies(l, true, MP_LINK_BESIDE, n_copies, err));
    MP_CHECK(issue_copies(l, false, MP_LINK_BESIDE, n_copies, err));
    MP_CHECK(issue_passes(l, in_memory, n_passes, err));
    for (int second = 0; second < 2; second++) {
        if (is_copy != second) {
            MP_CHECK(b->side_wait(b, OUT, 1, err));
            MP_CHECK(b->side_wait(b, BACK, 2, err));
        } else {
            MP_CHECK(b->side_wait(b, COMPUTE, 3, err));
        }
        MP_CHECK(note(l, 1 + second, err));
    }
    return stop(l, seconds, err);
}

static mp_status time_beside(void *link, bool in_memory, double copy_seconds, mp_link_beside *out, mp_error *err)
{
    device_link *l = link;
    double passes, copies, seconds;
    for (int k = 0; k < 2; k++) /* the second call overwrites the result of the first one, which may be slower */
        MP_CHECK(time_passes(l, in_memory, PASSES, &passes, err));
    MP_CHECK(time_both(l, in_memory, PASSES, (int64_t)ceil(3 * passes / copy_seconds), false, &seconds, err));
    out->compute = seconds / passes;
    MP_CHECK(time_copies(l, MP_LINK_BESIDE, PASSES, true, true, &copies, err));
    MP_CHECK(time_both(l, in_memory, (int64_t)ceil(3 * copies / (passes / PASSES)), PASSES, true, &seconds, err));
    out->copy = seconds / copies;
    return MP_OK;
}

mp_status mp_link_measure_device(const mp_backend *backend, mp_link_speed *out, mp_error *err)
{
    MP_CLEARED_BY(end) device_link l = {.backend = backend};
    const mp_link_probe probe = {&l, time_copy, time_beside};
    l.memory = backend->allocate(backend, 2 * (int64_t)VECTOR + ROOM);
    MP_ENSURE(l.memory, err, MP_NOMEM, "the device has less than %d MiB free, which timing of copies needs",
              (2 * VECTOR + ROOM) >> 20);
    MP_ENSURE(l.pinned = backend->pin(backend, ROOM), err, MP_NOMEM, "cannot pin %d MiB of host memory", ROOM >> 20);
    return mp_link_probe_all(&probe, out, err);
}
