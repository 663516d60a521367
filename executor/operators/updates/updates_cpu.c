/* updates_cpu.c - optimizer updates of parameters, the norm of all gradients, and sums of two gradients, in blocks. */
#include "executor/operators/updates/updates_cpu.h"

#include <math.h>

#include "estimator/training/training.h"
#include "executor/cpu/base/parallel.h"
#include "executor/kernel/optimizer.h"

/* Updates n elements w of a parameter, and their moments m and v. The gradients are g multiplied by `clip`. */
typedef void (*step_function)(const mp_update_factors *f, int64_t n, float clip, const float *g, float *w, float *m, float *v);

MP_VECTOR static void sgd(const mp_update_factors *f, int64_t n, float clip, const float *g, float *w, float *m, float *v)
{
    const mp_update_factors own = *f;
    (void)m, (void)v;
    for (int64_t k = 0; k < n; k++) w[k] = mp_sgd_step(&own, clip * g[k], w[k]);
}

MP_VECTOR static void momentum(const mp_update_factors *f, int64_t n, float clip, const float *g, float *w, float *m, float *v)
{
    const mp_update_factors own = *f;
    (void)v;
    for (int64_t k = 0; k < n; k++) {
        float mk = m[k];
        w[k] = mp_momentum_step(&own, clip * g[k], w[k], &mk);
        m[k] = mk;
    }
}

MP_VECTOR static void adam(const mp_update_factors *f, int64_t n, float clip, const float *g, float *w, float *m, float *v)
{
    const mp_update_factors own = *f;
    for (int64_t k = 0; k < n; k++) {
        float mk = m[k], vk = v[k];
        w[k] = mp_adam_step(&own, clip * g[k], w[k], &mk, &vk);
        m[k] = mk;
        v[k] = vk;
    }
}

typedef struct update_job {
    const mp_update *updates; /* list of updates; `first` of each is the number of blocks of all previous updates */
    size_t n;
    const mp_update_factors *f;
    step_function step;
} update_job;

/* Returns the update to which block k belongs: the last one whose first block is at or before k. */
static const mp_update *update_of(const update_job *job, int64_t k)
{
    size_t low = 0, high = job->n;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (job->updates[middle].first <= k)
            low = middle;
        else
            high = middle;
    }
    return &job->updates[low];
}

static void update_block(void *data, int64_t block)
{
    float g_room[MP_BLOCK];
    const update_job *job = data;
    const mp_update *u = update_of(job, block);
    int64_t k = block - u->first, at = k * MP_BLOCK, n = mp_block_size(u->n, k);
    int moments = mp_optimizer_moments(job->f->optimizer);
    float *m = moments > 0 ? u->state + at : NULL, *v = moments > 1 ? u->state + u->n + at : NULL;
    float *w = u->dtype == MP_DTYPE_FLOAT ? (float *)u->parameter + at : u->state + moments * u->n + at;
    job->step(job->f, n, u->clip ? *u->clip : 1, mp_floats(u->gradient, u->dtype, at, n, g_room), w, m, v);
    mp_floats_done(u->parameter, u->dtype, at, n, w);
}

void mp_cpu_update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors)
{
    (void)self;
    static const step_function steps[MP_N_OPTIMIZERS] = {
        [MP_OPTIMIZER_ADAMW] = adam, [MP_OPTIMIZER_ADAM] = adam, [MP_OPTIMIZER_SGD] = sgd, [MP_OPTIMIZER_MOMENTUM] = momentum};
    update_job job = {updates, n, factors, steps[factors->optimizer]};
    int64_t blocks = 0;
    for (size_t k = 0; k < n; k++) {
        updates[k].first = blocks;
        blocks += mp_block_count(updates[k].n);
    }
    mp_parallel(blocks, MP_BLOCK, update_block, &job);
}

typedef struct norm_job {
    const mp_update *gradient;
    double *sums; /* sums of the squared gradients, one per block */
} norm_job;

static void norm_block(void *data, int64_t k)
{
    float room[MP_BLOCK];
    const norm_job *job = data;
    int64_t n = mp_block_size(job->gradient->n, k);
    const float *g = mp_floats(job->gradient->gradient, job->gradient->dtype, k * MP_BLOCK, n, room);
    double sum = 0;
    for (int64_t e = 0; e < n; e++) sum += (double)g[e] * g[e];
    job->sums[k] = sum;
}

int64_t mp_cpu_norm_workspace_bytes(const mp_backend *self, int64_t n_elements)
{
    (void)self;
    return mp_block_count(n_elements) * (int64_t)sizeof(double);
}

double mp_cpu_squares(const mp_backend *self, const mp_update *gradients, size_t n, void *workspace)
{
    double total = 0;
    (void)self;
    for (size_t p = 0; p < n; p++) {
        norm_job job = {&gradients[p], workspace};
        mp_parallel(mp_block_count(gradients[p].n), MP_BLOCK, norm_block, &job);
        for (int64_t k = 0; k < mp_block_count(gradients[p].n); k++) total += job.sums[k];
    }
    return total;
}

void mp_cpu_clip(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor)
{
    *factor = mp_clip_factor(sqrt(mp_cpu_squares(self, gradients, n, workspace)), clip_norm);
}

typedef struct addition {
    mp_dtype dtype;
    int64_t n;
    const void *from;
    void *to;
} addition;

MP_VECTOR static void add_floats(const float *from, const float *old, int64_t n, float *to)
{
    for (int64_t k = 0; k < n; k++) to[k] = old[k] + from[k];
}

static void add_block(void *data, int64_t k)
{
    float a_room[MP_BLOCK], b_room[MP_BLOCK];
    const addition *x = data;
    int64_t at = k * MP_BLOCK, n = mp_block_size(x->n, k);
    const float *from = mp_floats(x->from, x->dtype, at, n, a_room), *old = mp_floats(x->to, x->dtype, at, n, b_room);
    float *to = mp_floats_room(x->to, x->dtype, at, b_room);
    add_floats(from, old, n, to);
    mp_floats_done(x->to, x->dtype, at, n, to);
}

void mp_cpu_add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to)
{
    addition x = {dtype, n, from, to};
    (void)self;
    mp_parallel(mp_block_count(n), MP_BLOCK, add_block, &x);
}
