/* prefetch.c - the thread that prepares batches in advance, and its synchronization with the training thread. */
#include "executor/data/prefetch.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "executor/cpu/cpu.h"

enum { BUFFERS = 2, ALIGNMENT = 64 };

struct mp_prefetch {
    const mp_backend *backend;
    const mp_feed *feed;
    size_t n;
    mp_array *plain, *stored; /* per input: its row-major array from the feed, and its layout in the backend's memory */
    void **rows;              /* per input: buffer for a row-major batch that must be converted */
    void **made_at[BUFFERS];  /* for each buffer and input: memory for a prepared batch in the backend's layout */
    /* for each input: device memory into which one batch is uploaded; NULL: the backend uses host memory */
    void **landing;
    int64_t landing_bytes;
    mp_pool *pool;

    pthread_t thread;
    bool has_thread, has_lock;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t changed;
    bool is_busy, stops;
    /* number of the batch with which the current series of consecutive batches began; -1: no series yet */
    int64_t first;
    /* made, brought, taken: numbers of prepared, uploaded and taken batches, counted from batch `first`; taken <= brought <=
     * made */
    int64_t made, brought, taken;
    mp_status failed; /* status of the thread; not MP_OK: the thread has stopped with the failure `why` */
    mp_error why;     /* the failure of the thread */
};

/* ---- the prefetch thread. Only this thread accesses batches that are not prepared, and landing memory whose batch is not
 * uploaded yet. */

static bool is_as_stored(const mp_prefetch *p, size_t k)
{
    return p->plain[k].dtype == p->stored[k].dtype && mp_array_same_layout(&p->plain[k], &p->stored[k]);
}

static mp_status make(mp_prefetch *p, int64_t which, mp_error *err)
{
    void **to = p->made_at[which % BUFFERS];
    mp_feed_batch(p->feed, p->first + which, p->rows ? p->rows : to);
    for (size_t k = 0; p->rows && k < p->n; k++) {
        mp_array from = p->plain[k], as_stored = p->stored[k];
        from.data = p->rows[k];
        as_stored.data = to[k];
        MP_CHECK(mp_cpu.upload(&mp_cpu, &from, &as_stored, err));
    }
    return MP_OK;
}

static mp_status bring(mp_prefetch *p, int64_t which, mp_error *err)
{
    const mp_backend *b = p->backend;
    for (size_t k = 0; k < p->n; k++)
        MP_CHECK(b->bring(b, p->landing[k], p->made_at[which % BUFFERS][k], mp_array_bytes(&p->stored[k]), err));
    return MP_OK;
}

/* With `brings`, uploads the next prepared batch; otherwise prepares the next batch. Does not hold the lock meanwhile. */
static void work(mp_prefetch *p, bool brings)
{
    const int64_t which = brings ? p->brought : p->made;
    mp_error why = {0};
    p->is_busy = true;
    pthread_mutex_unlock(&p->lock);
    mp_status st = brings ? bring(p, which, &why) : make(p, which, &why);
    pthread_mutex_lock(&p->lock);
    p->is_busy = false;
    p->failed = st;
    p->why = why;
    if (st == MP_OK && !brings) p->made++;
    if (st == MP_OK && (brings || !p->landing)) p->brought++;
    pthread_cond_broadcast(&p->changed);
}

/* Leaves the processor cores to the training steps: this thread starts no OpenMP threads, and has a lower priority if steps
 * run on the host. */
static void step_back(const mp_prefetch *p)
{
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
    /* on Linux, setpriority with 0 lowers the priority of the calling thread only */
    if (!p->landing) setpriority(PRIO_PROCESS, 0, 10);
}

static void *prefetch_thread(void *data)
{
    mp_prefetch *p = data;
    step_back(p);
    p->backend->enter(p->backend);
    pthread_mutex_lock(&p->lock);
    while (!p->stops) {
        const bool idle = p->first < 0 || p->failed;
        if (!idle && p->brought < p->made && p->brought == p->taken)
            work(p, true);
        else if (!idle && p->made < p->taken + BUFFERS)
            work(p, false);
        else
            pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    p->backend->leave(p->backend);
    return NULL;
}

/* ---- the training thread. */

mp_status mp_prefetch_take(mp_prefetch *p, int64_t batch, const mp_array *there, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_backend *b = p->backend;
    pthread_mutex_lock(&p->lock);
    if (p->first < 0 ||
        batch != p->first + p->taken) { /* the batch does not follow the previous one, so the thread restarts with this batch */
        while (p->is_busy) pthread_cond_wait(&p->changed, &p->lock);
        p->first = batch;
        p->made = p->brought = p->taken = 0;
        p->failed = MP_OK;
        pthread_cond_broadcast(&p->changed);
    }
    while (p->brought == p->taken && !p->failed) pthread_cond_wait(&p->changed, &p->lock);
    if (p->brought == p->taken) {
        if (err) *err = p->why;
        st = p->failed;
    }
    const int64_t which = p->taken;
    pthread_mutex_unlock(&p->lock);
    MP_CHECK(st);
    for (size_t k = 0; k < p->n; k++) {
        const int64_t bytes = mp_array_bytes(&p->stored[k]);
        if (p->landing)
            MP_CHECK(b->land(b, there[k].data, p->landing[k], bytes, err));
        else
            b->copy(b, there[k].data, p->made_at[which % BUFFERS][k], bytes);
    }
    pthread_mutex_lock(&p->lock);
    p->taken++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return MP_OK;
}

int64_t mp_prefetch_device_bytes(const mp_prefetch *p)
{
    return p->landing_bytes;
}

/* ---- creation and release. */

/* True if this machine has a processor core that the backend does not use for training steps. */
static bool has_free_core(const mp_backend *b)
{
#ifdef _OPENMP
    return b->threads(b) < omp_get_num_procs();
#else
    return b->threads(b) < sysconf(_SC_NPROCESSORS_ONLN);
#endif
}

/* Allocates memory for one batch of every input: pinned memory of backend `b`, or, if b is NULL, ordinary host memory. */
static mp_status buffer(mp_prefetch *p, const mp_backend *b, const mp_array *of, void ***out, mp_error *err)
{
    void **list;
    MP_ENSURE(list = *out = mp_pool_alloc(p->pool, p->n, sizeof *list), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < p->n; k++) {
        const int64_t bytes = mp_array_bytes(&of[k]) + ALIGNMENT;
        char *room = b ? b->pin(b, bytes) : mp_pool_alloc(p->pool, (size_t)bytes, 1);
        MP_ENSURE(room, err, MP_NOMEM, "there is no memory for the next batches, %lld bytes", (long long)bytes);
        list[k] = b ? room : room + (ALIGNMENT - (uintptr_t)room % ALIGNMENT) % ALIGNMENT;
    }
    return MP_OK;
}

/* Allocates the landing memory on the device, into which batches are uploaded; false: out of memory. */
static bool take_landing(mp_prefetch *p)
{
    const mp_backend *b = p->backend;
    p->landing = mp_pool_alloc(p->pool, p->n, sizeof *p->landing);
    for (size_t k = 0; p->landing && k < p->n; k++) {
        const int64_t bytes = mp_array_bytes(&p->stored[k]);
        if (!(p->landing[k] = b->allocate(b, bytes))) return false;
        p->landing_bytes += bytes;
    }
    return p->landing;
}

mp_status mp_prefetch_new(const mp_backend *backend, const mp_feed *feed, const mp_array *plain, const mp_array *stored,
                          size_t n, mp_prefetch **out, mp_error *err)
{
    MP_OWNED_BY(mp_prefetch_free) mp_prefetch *p = NULL;
    bool converts = false;
    *out = NULL;
    if (!has_free_core(backend)) return MP_OK;
    MP_ENSURE(p = mp_alloc(1, sizeof *p), err, MP_NOMEM, "out of memory");
    *p = (mp_prefetch){.backend = backend, .feed = feed, .n = n, .first = -1};
    MP_ENSURE(p->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    p->plain = mp_pool_alloc(p->pool, n, sizeof *p->plain);
    p->stored = mp_pool_alloc(p->pool, n, sizeof *p->stored);
    MP_ENSURE(p->plain && p->stored, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) {
        p->plain[k] = plain[k];
        p->stored[k] = stored[k];
        converts |= !is_as_stored(p, k);
    }
    if (converts) MP_CHECK(buffer(p, NULL, plain, &p->rows, err));
    for (int k = 0; k < BUFFERS; k++) MP_CHECK(buffer(p, backend->bring ? backend : NULL, stored, &p->made_at[k], err));
    if (backend->bring && !take_landing(p)) return MP_OK;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->has_lock = true;
    p->has_thread = !pthread_create(&p->thread, NULL, prefetch_thread, p);
    if (!p->has_thread) return MP_OK; /* without a thread, the training thread prepares the batches */
    *out = p;
    p = NULL;
    return MP_OK;
}

void mp_prefetch_free(mp_prefetch *p)
{
    if (!p) return;
    const mp_backend *b = p->backend;
    if (p->has_thread) {
        pthread_mutex_lock(&p->lock);
        p->stops = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    if (p->has_lock) pthread_cond_destroy(&p->changed);
    if (p->has_lock) pthread_mutex_destroy(&p->lock);
    for (size_t k = 0; p->landing && k < p->n; k++) b->release(b, p->landing[k], mp_array_bytes(&p->stored[k]));
    for (int s = 0; b->bring && s < BUFFERS; s++)
        for (size_t k = 0; p->made_at[s] && k < p->n; k++)
            if (p->made_at[s][k]) b->unpin(b, p->made_at[s][k]);
    mp_pool_free(p->pool);
    mp_free(p);
}
