/* proof.c - computes the lower bound of a search: chooses the effort, and whether the bound is for plans in list order or in
 * any order. Runs the computation in a thread. */
#include "planner/bound/proof.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "estimator/base/memory.h"
#include "planner/bound/bound.h"
#include "planner/math/tuning.h"

int mp_proof_effort(const mp_graph *graph)
{
    const size_t n = graph->n_nodes;
    return n < MP_PROOF_NODES_8 ? 8 : n < MP_PROOF_NODES_4 ? 4 : n < MP_PROOF_NODES_2 ? 2 : n < MP_PROOF_NODES_1 ? 1 : 0;
}

mp_status mp_prove(mp_problem *problem, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err)
{
    mp_bound_options own = *options;
    mp_bound any = {0};
    MP_CLEARED_BY(mp_bound_report_clear) mp_bound_report report = {0};
    mp_bound_report_init(&report);
    own.any_order = !keep_order;
    MP_CHECK(mp_bound_of(problem, budget_bytes, &own, out, err));
    if (!keep_order || out->infeasible) return MP_OK;
    own.any_order = true;
    /* little effort is enough for the bound on plans in any order, because it is rarely higher than the bound on plans in list
     * order */
    if (own.effort > 1) own.effort = 1;
    if (options->report) own.report = &report;
    MP_CHECK(mp_bound_of(problem, budget_bytes, &own, &any, err));
    const bool is_better = any.infeasible || any.ticks > out->ticks;
    if (options->report) mp_bound_report_merge(options->report, &report, is_better);
    if (is_better) *out = any;
    return MP_OK;
}

/* ---- computing the bound in its own thread ---- */

struct mp_proof {
    mp_problem *problem;
    int64_t budget_bytes;
    mp_bound_options asked;
    atomic_bool ends;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects is_found */
    pthread_cond_t found;
    bool is_apart, is_found;
    /* bound, status, err, n_live: until the thread has set is_found, only the thread may access these four fields */
    mp_bound bound;
    mp_status status;
    mp_error err;
    long n_live; /* the thread's contribution to mp_alloc_live */
};

static bool is_over(void *data)
{
    const mp_proof *proof = data;
    return atomic_load(&proof->ends) || (proof->asked.stop && proof->asked.stop(proof->asked.data));
}

static void *find(void *data)
{
    mp_proof *proof = data;
    const long before = mp_alloc_live;
    mp_bound_options own = proof->asked;
    own.stop = is_over;
    own.data = proof;
    proof->status = mp_bound_of(proof->problem, proof->budget_bytes, &own, &proof->bound, &proof->err);
    proof->n_live = mp_alloc_live - before;
    pthread_mutex_lock(&proof->mutex);
    proof->is_found = true;
    pthread_cond_signal(&proof->found);
    pthread_mutex_unlock(&proof->mutex);
    return NULL;
}

mp_status mp_proof_start(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_proof **out,
                         mp_error *err)
{
    mp_proof *proof = mp_alloc(1, sizeof *proof);
    MP_ENSURE(proof, err, MP_NOMEM, "out of memory for a bound");
    proof->problem = problem;
    proof->budget_bytes = budget_bytes;
    proof->asked = *options;
    atomic_init(&proof->ends, false);
    pthread_mutex_init(&proof->mutex, NULL);
    pthread_cond_init(&proof->found, NULL);
    proof->is_apart = !pthread_create(&proof->thread, NULL, find, proof);
    if (!proof->is_apart) find(proof);
    *out = proof;
    return MP_OK;
}

bool mp_proof_wait(mp_proof *proof, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const double whole = floor(seconds), nanoseconds = 1e9 * (seconds - whole) + (double)until.tv_nsec;
    until.tv_sec += (time_t)whole + (nanoseconds >= 1e9);
    until.tv_nsec = (long)(nanoseconds >= 1e9 ? nanoseconds - 1e9 : nanoseconds);
    pthread_mutex_lock(&proof->mutex);
    bool waits = seconds > 0;
    while (!proof->is_found && waits) waits = !pthread_cond_timedwait(&proof->found, &proof->mutex, &until);
    const bool is_found = proof->is_found;
    pthread_mutex_unlock(&proof->mutex);
    return is_found;
}

mp_status mp_proof_end(mp_proof *proof, mp_bound *out, mp_error *err)
{
    if (!proof) return MP_OK;
    atomic_store(&proof->ends, true);
    if (proof->is_apart) {
        pthread_join(proof->thread, NULL);
        mp_alloc_live += proof->n_live;
    }
    const mp_status st = proof->status;
    if (st == MP_OK)
        *out = proof->bound;
    else if (err && err->code == MP_OK)
        *err = proof->err;
    pthread_cond_destroy(&proof->found);
    pthread_mutex_destroy(&proof->mutex);
    mp_free(proof);
    return st;
}
