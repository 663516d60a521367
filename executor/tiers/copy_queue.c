/* copy_queue.c - the thread that runs a channel's copies, and its synchronization with the thread that issues them. */
#include "executor/tiers/copy_queue.h"

#include <pthread.h>
#include <time.h>

#include "estimator/base/clock.h"

enum { ROOM = 256 }; /* capacity of the queue: maximum number of copies that are issued and have not ended */

struct mp_copy_queue {
    mp_copy_queue_options options;
    mp_transfer *transfer; /* buffers and io_uring of the copying thread; no other thread uses them */
    double began;          /* start time of the current copy; only the copying thread uses it */
    pthread_t thread;
    bool has_thread, has_lock;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t changed;
    mp_copy copies[ROOM]; /* copy number k is stored in copies[k % ROOM] */
    int64_t issued, ended;
    bool stops;
    mp_copied copied;
    mp_status failed; /* status of the queue; not MP_OK: copy number `ended` failed, and later copies are skipped */
    mp_error why;
};

static double system_now(void *clock)
{
    (void)clock;
    return mp_clock_now();
}

static void system_sleep_until(void *clock, double seconds)
{
    (void)clock;
    for (double left; (left = seconds - mp_clock_now()) > 0;)
        nanosleep(&(struct timespec){(time_t)left, (long)(1e9 * (left - (double)(time_t)left))}, NULL);
}

/* Implements mp_paced to simulate a slower link: waits until a link of the given rate would have moved `moved_bytes`. Called
 * before every piece and at the end of the copy. No piece begins, and no copy ends, earlier than on the simulated link. The
 * real time of a copy counts towards the wait. */
static bool pace(void *data, int64_t moved_bytes)
{
    mp_copy_queue *q = data;
    const mp_copy_queue_options *o = &q->options;
    if (o->bytes_per_second > 0) o->sleep_until(o->clock, q->began + (double)moved_bytes / o->bytes_per_second);
    pthread_mutex_lock(&q->lock);
    const bool goes_on = !q->stops;
    pthread_mutex_unlock(&q->lock);
    return goes_on;
}

static void *copy_thread(void *data)
{
    mp_copy_queue *q = data;
    pthread_mutex_lock(&q->lock);
    while (!q->stops) {
        if (q->ended == q->issued || q->failed) {
            pthread_cond_wait(&q->changed, &q->lock);
            continue;
        }
        const mp_copy copy = q->copies[q->ended % ROOM];
        mp_error why = {0};
        pthread_mutex_unlock(&q->lock);
        q->began = q->options.now(q->options.clock);
        const mp_status st = mp_transfer_run(q->transfer, &copy, pace, q, &why);
        if (st == MP_OK) pace(q, copy.bytes);
        pthread_mutex_lock(&q->lock);
        q->failed = st;
        q->why = why;
        if (st == MP_OK) {
            *(copy.is_out ? &q->copied.out_bytes : &q->copied.in_bytes) += copy.bytes;
            q->ended++;
        }
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

mp_status mp_copy_queue_new(const mp_copy_queue_options *options, mp_copy_queue **out, mp_error *err)
{
    MP_OWNED_BY(mp_copy_queue_free) mp_copy_queue *q = mp_alloc(1, sizeof *q);
    MP_ENSURE(q, err, MP_NOMEM, "out of memory");
    q->options = *options;
    if (!options->now) {
        q->options.now = system_now;
        q->options.sleep_until = system_sleep_until;
    }
    MP_ENSURE(q->transfer = mp_transfer_new(options->plain), err, MP_NOMEM, "out of memory");
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->has_lock = true;
    q->has_thread = !pthread_create(&q->thread, NULL, copy_thread, q);
    MP_ENSURE(q->has_thread, err, MP_NOMEM, "no thread could be started for copies");
    *out = q;
    q = NULL;
    return MP_OK;
}

void mp_copy_queue_free(mp_copy_queue *q)
{
    if (!q) return;
    if (q->has_thread) {
        pthread_mutex_lock(&q->lock);
        q->stops = true;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->lock);
        pthread_join(q->thread, NULL);
    }
    if (q->has_lock) pthread_cond_destroy(&q->changed);
    if (q->has_lock) pthread_mutex_destroy(&q->lock);
    mp_transfer_free(q->transfer);
    mp_free(q);
}

mp_status mp_copy_queue_issue(mp_copy_queue *q, const mp_copy *copy, int64_t *ticket, mp_error *err)
{
    const mp_tier *t = copy->tier;
    MP_ENSURE(copy->offset >= 0 && copy->bytes >= 0 && copy->bytes <= t->bytes && copy->offset <= t->bytes - copy->bytes, err,
              MP_INVALID, "'%.120s', %lld bytes at %lld, is not within the %lld bytes of %s", copy->label,
              (long long)copy->bytes, (long long)copy->offset, (long long)t->bytes, t->title);
    MP_ENSURE(t->memory || copy->offset % MP_TIER_ALIGNMENT == 0, err, MP_INVALID,
              "the offset of '%.120s' is not a multiple of %d in %s", copy->label, MP_TIER_ALIGNMENT, t->title);
    pthread_mutex_lock(&q->lock);
    while (q->issued - q->ended == ROOM && !q->failed) pthread_cond_wait(&q->changed, &q->lock);
    q->copies[q->issued % ROOM] = *copy;
    *ticket = q->issued++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return MP_OK;
}

mp_status mp_copy_queue_wait(mp_copy_queue *q, int64_t ticket, mp_error *err)
{
    mp_status st = MP_OK;
    pthread_mutex_lock(&q->lock);
    while (q->ended <= ticket && !q->failed) pthread_cond_wait(&q->changed, &q->lock);
    if (q->ended <= ticket) {
        st = q->failed;
        if (err && err->code == MP_OK) *err = q->why;
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

mp_copied mp_copy_queue_copied(mp_copy_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const mp_copied copied = q->copied;
    pthread_mutex_unlock(&q->lock);
    return copied;
}
