/* train_ranks.c - joins the ranks of a training, compares them, and lets them leave. */
#include "cli/reports/train_ranks.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "executor/ranks/communicator.h"
#include "executor/ranks/peers.h"
#include "executor/run/rank_results.h"
#include "executor/run/stage.h"

enum { JOIN_SECONDS = 60 };
enum { PLANNING_SECONDS = 600 }; /* by which one rank may take longer than another until it has its plan */

static const char *last_words;

static void on_alarm(int signal)
{
    (void)signal;
    if (last_words && write(STDERR_FILENO, last_words, strlen(last_words)) < 0) _exit(EXIT_NO);
    _exit(EXIT_NO);
}

/* From here on the process ends with a sentence if a call of the launcher's library does not return; NULL: it has. */
static void limit(const options *o, const char *sentence)
{
    const double seconds = o->training.timeout > 0 ? o->training.timeout : JOIN_SECONDS;
    last_words = sentence;
    if (sentence) signal(SIGALRM, on_alarm);
    alarm(sentence ? (unsigned)ceil(seconds) : 0);
}

static void on_term(int signal)
{
    (void)signal;
    mp_peers_call_off();
}

mp_status train_join(options *o, ranks *r, mp_error *err)
{
    mp_mesh mesh;
    if (r->world || !o->model.mesh || mp_mesh_read(o->model.mesh, &mesh, NULL) != MP_OK || mp_mesh_devices(&mesh) == 1)
        return MP_OK;
    limit(o, "memplan: this process has not been joined with the other ranks in time: they are not all there, or cannot be "
             "reached\n");
    const mp_status st = mp_communicator_open("mpi", &r->world, err);
    limit(o, NULL);
    if (r->world) messages_as_rank(mp_communicator_rank(r->world));
    MP_CHECK(st);
    signal(SIGTERM, on_term); /* a launcher sends it to all when one has ended: first they say which */
    const long long n = mp_communicator_size(r->world), wanted = mp_mesh_devices(&mesh);
    r->compares = true;
    MP_ENSURE(n == wanted, err, MP_INVALID,
              "the mesh %s has %lld ranks, and %lld process%s started: mpirun -n %lld memplan ...", mp_mesh_write(&mesh).text,
              wanted, n, n == 1 ? " was" : "es were", wanted);
    r->compares = false;
    o->model.own_device = mp_communicator_number_here(r->world);
    return MP_OK;
}

mp_status train_take_stage(options *o, ranks *r, mp_error *err)
{
    mp_mesh mesh;
    if (!r->world || *r->stage || mp_mesh_read(o->model.mesh, &mesh, NULL) != MP_OK || mesh.size[MP_DIM_PP] == 1) return MP_OK;
    r->compares = true;
    MP_ENSURE(o->model.accumulate <= 1, err, MP_INVALID, "--accumulate is what --micro-batches is in a pipeline");
    r->compares = false;
    r->stage_number = mp_communicator_rank(r->world) / (int)mp_mesh_group(&mesh, MP_DIM_PP).stride;
    snprintf(r->stage, sizeof r->stage, "%d", r->stage_number);
    o->model.rank = r->stage;
    o->given[OPT_RANK] = true;
    return MP_OK;
}

/* Compares plans and data, of a pipeline those of the ranks of each stage. */
static mp_status agree_on_stage(const train_outcome *t, const ranks *r, const uint64_t data[2], double timeout, mp_error *err)
{
    const mp_plan *plan = t->subject.plan;
    const int n = mp_communicator_size(r->world), n_stages = (int)t->subject.ranks.mesh.size[MP_DIM_PP];
    const mp_fact facts[] = {{"plan", plan->steps, plan->n_steps * sizeof *plan->steps},
                             {"set of data (--data)", &data[0], sizeof data[0]},
                             {"set of data to test on (--test)", &data[1], sizeof data[1]}};
    return mp_ranks_agree(r->world, n / n_stages, facts, sizeof facts / sizeof *facts, timeout, err);
}

mp_status train_agree(const options *o, const train_outcome *t, ranks *r, const mp_hyper *h, const uint64_t data[2],
                      mp_error *err)
{
    const mp_program *program = t->subject.program;
    const double timeout = o->training.timeout > 0 ? o->training.timeout : PLANNING_SECONDS;
    const char *graph = program->stage ? program->stage->whole_hash : t->subject.graph->hash;
    const mp_pipeline_shape *shape = &t->subject.rank.shape;
    const double run[] = {h->learning_rate,
                          h->momentum,
                          h->weight_decay,
                          h->nesterov,
                          h->schedule,
                          (double)h->warmup_steps,
                          (double)h->n_steps,
                          o->training.before,
                          (double)o->training.save_every,
                          o->training.save != NULL,
                          o->training.resume != NULL};
    const mp_fact facts[] = {{"version of memplan", MEMPLAN_VERSION, sizeof MEMPLAN_VERSION},
                             {"seed", &o->search.seed, sizeof o->search.seed},
                             {"training graph", graph, sizeof t->subject.graph->hash},
                             {"order of sums (--reduce)", &program->fast_sums, sizeof(bool)},
                             {"schedule", &shape->schedule, sizeof shape->schedule},
                             {"number of micro-batches", &shape->n_micro_batches, sizeof shape->n_micro_batches},
                             {"cut of the network into stages", t->subject.begins,
                              (size_t)(shape->n_ranks * shape->n_chunks) * sizeof *t->subject.begins},
                             {"set of training options", run, sizeof run}};
    if (!r->world) return MP_OK;
    r->compares = true;
    MP_CHECK(mp_communicator_agree(r->world, facts, sizeof facts / sizeof *facts, timeout, err));
    MP_CHECK(agree_on_stage(t, r, data, timeout, err));
    r->compares = false;
    return MP_OK;
}

bool train_is_known(ranks *r, const mp_error *err)
{
    r->all_failed = r->compares && err->code == MP_INVALID;
    return r->all_failed && train_is_silent(r);
}

int train_leave(const options *o, ranks *r, int status)
{
    if (r->world && status != EXIT_DONE && !r->all_failed) {
        fflush(NULL);
        limit(o, ""); /* why it ends is said already */
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
