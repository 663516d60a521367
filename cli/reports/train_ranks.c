/* train_ranks.c - connects the ranks of a training, compares their options and data, sends plans between ranks that have the
 * same graph, and ends all ranks together. */
#include "cli/reports/train_ranks.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/launcher.h"
#include "cli/messages/messages.h"
#include "cli/messages/rank_interrupt.h"
#include "cli/options/options.h"
#include "estimator/base/memory.h"
#include "formats/base/text.h"
#include "memplan/ranks/workload_ranks.h"

enum { JOIN_SECONDS = 60 };
enum { PLANNING_SECONDS = 600 }; /* the first rank that has a plan waits at most this number of seconds for the last rank */

static const char *last_words;

static void on_alarm(int signal)
{
    (void)signal;
    if (last_words && write(STDERR_FILENO, last_words, strlen(last_words)) < 0) _exit(EXIT_NO);
    _exit(EXIT_NO);
}

/* Sets a deadline for a call of the communication library. If the call does not return in time, the process prints `sentence`
 * and ends. NULL cancels the deadline. */
static void limit(const options *o, const char *sentence)
{
    const double seconds = o->training.timeout > 0 ? o->training.timeout : JOIN_SECONDS;
    last_words = sentence;
    if (sentence) signal(SIGALRM, on_alarm);
    alarm(sentence ? (unsigned)ceil(seconds) : 0);
}

mp_status train_join(options *o, ranks *r, mp_error *err)
{
    const mp_mesh *mesh = &o->model.mesh;
    if (r->world || mp_mesh_devices(mesh) <= 1) return MP_OK;
    limit(o, "memplan: this process could not join the other ranks in time: some did not start, or cannot be reached\n");
    const mp_status st = mp_communicator_open("mpi", &r->world, err);
    limit(o, NULL);
    if (r->world) messages_as_rank(mp_communicator_rank(r->world));
    MP_CHECK(st);
    rank_interrupt_begin(r->world);
    const long long n = mp_communicator_size(r->world), wanted = mp_mesh_devices(mesh);
    r->compares = true;
    MP_ENSURE(n == wanted, err, MP_INVALID,
              "the mesh %s needs %lld ranks, but %lld process%s started; run mpirun -n %lld memplan ...",
              mp_mesh_write(mesh).text, wanted, n, n == 1 ? " was" : "es were", wanted);
    r->compares = false;
    o->model.own_device = mp_communicator_number_here(r->world);
    return MP_OK;
}

mp_status train_check_alone(ranks *r, mp_error *err)
{
    const int n = launcher_ranks();
    if (r->world || n == 1) return MP_OK;
    r->all_failed = true;
    r->is_told = launcher_rank() > 0;
    /* ranks other than 0 end without an error, because the launcher would otherwise end rank 0 before it prints the reason */
    r->status = r->is_told ? EXIT_DONE : EXIT_USAGE;
    return MP_FAIL(err, MP_INVALID,
                   "the launcher has started %d processes, but without --mesh each would train alone; add --mesh dp=%d, or "
                   "start memplan without the launcher",
                   n, n);
}

mp_status train_take_stage(options *o, ranks *r, mp_error *err)
{
    const mp_mesh *mesh = &o->model.mesh;
    if (!r->world || *r->stage || mesh->size[MP_DIM_PP] == 1) return MP_OK;
    r->compares = true;
    MP_ENSURE(o->model.accumulate <= 1, err, MP_INVALID, "--accumulate does not apply to a pipeline; use --micro-batches");
    MP_ENSURE(!o->model.offload.n, err, MP_INVALID, "--offload with pp can be planned but not trained yet (mesh %s)",
              mp_mesh_write(mesh).text);
    r->compares = false;
    r->stage_number = mp_communicator_rank(r->world) / (int)mp_mesh_group(mesh, MP_DIM_PP).stride;
    snprintf(r->stage, sizeof r->stage, "%d", r->stage_number);
    o->model.rank = r->stage;
    o->given[OPT_RANK] = true;
    return MP_OK;
}

/* Records the rank whose work has failed. Returns the failure of this rank, or if this rank has not failed, the failure of the
 * other rank. */
static mp_status take_end(ranks *r, const mp_work_end *end, mp_status own, mp_status all, const mp_error *others, mp_error *err)
{
    r->all_failed = end->failed;
    r->status = end->failed;
    r->is_told = end->is_other;
    if (own != MP_OK) return own;
    if (all != MP_OK && err) *err = *others;
    return all;
}

mp_status train_end_together(const options *o, ranks *r, mp_status own, bool reads, mp_error *err)
{
    const double timeout = fmax(o->training.timeout, PLANNING_SECONDS);
    mp_work_end end = {.code = own == MP_OK ? 0 : reads ? input_status(own) : output_status(own)};
    mp_error others = {0};
    if (!r->world || r->compares) return own;
    const mp_status all = mp_ranks_end_together(r->world, &end, "the preparation of the training", timeout, &others);
    return take_end(r, &end, own, all, &others, err);
}

/* Writes one fact per option that the table marks with `agrees` to facts[0..N_OPTIONS): its name and its value as text, which
 * `pool` owns. MP_NOMEM. */
static mp_status option_facts(const options *o, mp_pool *pool, mp_fact *facts, size_t *n, mp_error *err)
{
    *n = 0;
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *row = &option_rows[k];
        if (row->agrees == MP_AGREES_NOT || !(row->commands >> o->command & 1)) continue;
        const char *value = row->agrees == MP_AGREES_VALUE  ? mp_option_text(row, o)
                            : option_given(o, (option_id)k) ? "yes"
                                                            : "no";
        const char *name = mp_text("value of --%s", row->name);
        const char *kept = mp_pool_text(pool, value, strlen(value));
        facts[*n] = (mp_fact){mp_pool_text(pool, name, strlen(name)), kept, kept ? strlen(kept) : 0};
        MP_ENSURE(kept && facts[*n].name, err, MP_NOMEM, "out of memory");
        ++*n;
    }
    return MP_OK;
}

mp_status train_agree(const options *o, const train_outcome *t, ranks *r, mp_error *err)
{
    const double timeout = o->training.timeout > 0 ? o->training.timeout : PLANNING_SECONDS;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_fact facts[N_OPTIONS];
    size_t n;
    if (!r->world) return MP_OK;
    MP_ENSURE(pool, err, MP_NOMEM, "out of memory");
    MP_CHECK(option_facts(o, pool, facts, &n, err));
    r->compares = true;
    MP_CHECK(mp_workload_agree(&t->workload, r->world, facts, n, timeout, err));
    r->compares = false;
    return MP_OK;
}

bool train_searches(const train_outcome *t, const ranks *r)
{
    return mp_workload_searches(&t->workload, r->world);
}

mp_status train_share_plan(const options *o, train_outcome *t, ranks *r, mp_status found, mp_error *err)
{
    const double timeout = fmax(o->training.timeout, PLANNING_SECONDS + o->search.time_limit);
    mp_error others = {0};
    mp_work_end end = {.code = found == MP_OK           ? 0
                               : t->no_plan             ? t->no_plan
                               : found == MP_INFEASIBLE ? EXIT_NO
                                                        : input_status(found)};
    if (!r->world) return found;
    const mp_status st = mp_workload_share_plan(&t->workload, r->world, &end, timeout, &others);
    return take_end(r, &end, found, st, &others, err);
}

mp_status train_agree_on_inputs(const options *o, const train_outcome *t, ranks *r, const mp_workload_inputs *inputs,
                                mp_error *err)
{
    const double timeout = o->training.timeout > 0 ? o->training.timeout : PLANNING_SECONDS;
    if (!r->world) return MP_OK;
    r->compares = true;
    MP_CHECK(mp_workload_agree_on_inputs(&t->workload, r->world, inputs, timeout, err));
    r->compares = false;
    return MP_OK;
}

/* ---- ending the ranks together ---- */

bool train_is_known(ranks *r, const mp_error *err)
{
    if (r->compares && err->code == MP_INVALID) {
        r->all_failed = true;
        r->is_told = train_is_silent(r);
        r->status = EXIT_USAGE;
    }
    return r->is_told;
}

int train_leave(const options *o, ranks *r, int status)
{
    rank_interrupt_end();
    if (r->world && status != EXIT_DONE && !r->all_failed) {
        fflush(NULL);
        limit(o, ""); /* the process ends without a sentence at the deadline, because the reason was printed before */
        r->world->end(r->world, status);
    }
    if (r->world) limit(o, "memplan: the other ranks have not ended in time, though all work was done\n");
    mp_communicator_close(r->world);
    limit(o, NULL);
    return status;
}

bool train_is_silent(const ranks *r)
{
    return r->world && mp_communicator_rank(r->world) > 0;
}
