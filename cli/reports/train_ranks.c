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
#include "executor/ranks/exchanges.h"
#include "executor/run/rank_results.h"
#include "executor/run/stage.h"
#include "formats/json/plan_json.h"
#include "memplan/check.h"

enum { JOIN_SECONDS = 60 };
enum { PLANNING_SECONDS = 600 }; /* the first rank that has a plan waits at most this number of seconds for the last one */

static const char *last_words;

static void on_alarm(int signal)
{
    (void)signal;
    if (last_words && write(STDERR_FILENO, last_words, strlen(last_words)) < 0) _exit(EXIT_NO);
    _exit(EXIT_NO);
}

/* Sets a deadline for a call of the communication library. If the call does not return in time, the process prints the sentence
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
    mp_mesh mesh;
    if (r->world || !o->model.mesh || mp_mesh_read(o->model.mesh, &mesh, NULL) != MP_OK || mp_mesh_devices(&mesh) == 1)
        return MP_OK;
    limit(o, "memplan: this process could not join the other ranks in time: some did not start, or cannot be reached\n");
    const mp_status st = mp_communicator_open("mpi", &r->world, err);
    limit(o, NULL);
    if (r->world) messages_as_rank(mp_communicator_rank(r->world));
    MP_CHECK(st);
    rank_interrupt_begin(r->world);
    const long long n = mp_communicator_size(r->world), wanted = mp_mesh_devices(&mesh);
    r->compares = true;
    MP_ENSURE(n == wanted, err, MP_INVALID,
              "the mesh %s needs %lld ranks, but %lld process%s started; run mpirun -n %lld memplan ...",
              mp_mesh_write(&mesh).text, wanted, n, n == 1 ? " was" : "es were", wanted);
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
    mp_mesh mesh;
    if (!r->world || *r->stage || mp_mesh_read(o->model.mesh, &mesh, NULL) != MP_OK || mesh.size[MP_DIM_PP] == 1) return MP_OK;
    r->compares = true;
    MP_ENSURE(o->model.accumulate <= 1, err, MP_INVALID, "--accumulate does not apply to a pipeline; use --micro-batches");
    MP_ENSURE(!o->model.offload.n, err, MP_INVALID, "--offload with pp can be planned but not trained yet (mesh %s)",
              mp_mesh_write(&mesh).text);
    r->compares = false;
    r->stage_number = mp_communicator_rank(r->world) / (int)mp_mesh_group(&mesh, MP_DIM_PP).stride;
    snprintf(r->stage, sizeof r->stage, "%d", r->stage_number);
    o->model.rank = r->stage;
    o->given[OPT_RANK] = true;
    return MP_OK;
}

mp_status train_end_together(const options *o, ranks *r, mp_status own, bool reads, mp_error *err)
{
    static const char *const what = "the preparation of the training";
    const double timeout = fmax(o->training.timeout, PLANNING_SECONDS);
    const int64_t status = own == MP_OK ? 0 : reads ? input_status(own) : output_status(own);
    mp_error others = {0};
    if (!r->world || r->compares) return own;
    const int n = mp_communicator_size(r->world);
    MP_OWNED int64_t *all = mp_alloc((size_t)n, sizeof *all);
    MP_ENSURE(all || own != MP_OK, err, MP_NOMEM, "out of memory");
    if (!all) return own;
    const mp_status heard = mp_communicator_exchange(r->world, &status, sizeof status, all, timeout, what, &others);
    if (own == MP_OK && heard != MP_OK) *err = others;
    if (own != MP_OK && heard != MP_OK) return own;
    MP_CHECK(heard);
    for (int k = 0; k < n && !r->all_failed; k++) {
        MP_ENSURE(all[k] >= 0 && all[k] < 128, err, MP_IO, "rank %d of %d does not say how %s has ended", k, n, what);
        if (!all[k]) continue;
        r->all_failed = true;
        r->status = (int)all[k];
        r->is_told = k != mp_communicator_rank(r->world);
        if (own == MP_OK) MP_FAIL(err, MP_IO, "rank %d of %d has failed; its own message gives the cause", k, n);
    }
    return r->all_failed && own == MP_OK ? MP_IO : own;
}

static const char *or_none(const char *text)
{
    return text ? text : "";
}

mp_status train_agree(const options *o, const train_outcome *t, ranks *r, const mp_hyper *h, mp_error *err)
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
    const search_options *s = &o->search;
    const char *budget = or_none(s->budget),
               *search = mp_text("%s %s %s %lld %lld %g %g %d %d %d %d", or_none(s->solver), or_none(s->effort),
                                 or_none(s->granularity), (long long)s->moves, (long long)s->reserve, s->gap, s->time_limit,
                                 s->keep_order, s->second_stream, s->offsets, o->output.plan != NULL);
    const mp_fact facts[] = {{"version of memplan", MEMPLAN_VERSION, sizeof MEMPLAN_VERSION},
                             {"seed", &o->search.seed, sizeof o->search.seed},
                             {"training graph", graph, sizeof t->subject.graph->hash},
                             {"order of sums (--reduce)", &program->fast_sums, sizeof(bool)},
                             {"schedule", &shape->schedule, sizeof shape->schedule},
                             {"number of micro-batches", &shape->n_micro_batches, sizeof shape->n_micro_batches},
                             {"cut of the network into stages", t->subject.begins,
                              (size_t)(shape->n_ranks * shape->n_chunks) * sizeof *t->subject.begins},
                             {"set of training options", run, sizeof run},
                             {"budget", budget, strlen(budget)},
                             {"set of options of the search for a plan", search, strlen(search)}};
    if (!r->world) return MP_OK;
    r->compares = true;
    MP_CHECK(mp_communicator_agree(r->world, facts, sizeof facts / sizeof *facts, timeout, err));
    r->compares = false;
    return MP_OK;
}

/* ---- sending one plan to all ranks that have the same graph ---- */

/* Returns the number of ranks that have the same graph as this rank. Their numbers are consecutive. */
static int of_one_graph(const train_outcome *t, const ranks *r)
{
    return mp_communicator_size(r->world) / (int)t->subject.ranks.mesh.size[MP_DIM_PP];
}

bool train_searches(const train_outcome *t, const ranks *r)
{
    return !r->world || mp_communicator_rank(r->world) % of_one_graph(t, r) == 0;
}

/* The message that each rank sends to all others after its search: its exit status if the search failed, and the bytes of stash
 * that its plan needs. */
typedef struct ended_search {
    int64_t status, held_bytes;
} ended_search;

/* Reads the plan that another rank has sent, and checks it against this rank's graph. */
static mp_status take_plan(train_outcome *t, const char *text, int from, int64_t held_bytes, mp_error *err)
{
    subject *s = &t->subject;
    MP_CHECK(subject_hold(s, &held_bytes, err));
    mp_status st = mp_plan_read_text(text, mp_text("the plan of rank %d", from), s->graph, &s->plan, err);
    if (st == MP_OK) st = mp_plan_check(s->graph, s->plan, err);
    return st == MP_OK ? subject_check_held(s, s->plan->steps, s->plan->n_steps, err) : st;
}

/* Evaluates the messages of all ranks about their searches. If the search of one rank failed, the function fails on all
 * ranks. */
static mp_status hear(ranks *r, const ended_search *all, mp_error *err)
{
    const int n = mp_communicator_size(r->world), own = mp_communicator_rank(r->world);
    for (int k = 0; k < n; k++) {
        MP_ENSURE(all[k].status >= 0 && all[k].status < 128 && all[k].held_bytes >= 0 && all[k].held_bytes < MP_NO_LIMIT / 2,
                  err, MP_IO, "rank %d of %d does not say how its search for a plan has ended", k, n);
        if (!all[k].status || r->all_failed) continue;
        r->all_failed = true;
        r->status = (int)all[k].status;
        r->is_told = !all[own].status;
        MP_FAIL(err, MP_INFEASIBLE, "rank %d of %d has found no plan; its own message gives the cause", k, n);
    }
    return r->all_failed ? MP_INFEASIBLE : MP_OK;
}

mp_status train_share_plan(const options *o, train_outcome *t, ranks *r, mp_status found, mp_error *err)
{
    static const char *const what = "the search for a plan";
    const double timeout = fmax(o->training.timeout, PLANNING_SECONDS + o->search.time_limit);
    const subject *s = &t->subject;
    mp_error others = {0};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED char *own = NULL;
    ended_search ended = {.status = found == MP_OK           ? 0
                                    : t->no_plan             ? t->no_plan
                                    : found == MP_INFEASIBLE ? EXIT_NO
                                                             : input_status(found)};
    if (!r->world) return found;
    MP_OWNED ended_search *all = mp_alloc((size_t)mp_communicator_size(r->world), sizeof *all);
    MP_ENSURE(pool && all, err, MP_NOMEM, "out of memory");
    if (s->plan && s->rank.held >= 0 && s->rank.shape.n_ranks)
        ended.held_bytes = s->graph->storages[s->rank.held].payload_bytes;
    mp_status heard = mp_communicator_exchange(r->world, &ended, sizeof ended, all, timeout, what, &others);
    if (heard == MP_OK) heard = hear(r, all, &others);
    if (found != MP_OK) return found;
    if (heard != MP_OK) *err = others;
    MP_CHECK(heard);
    if (s->plan) MP_CHECK(mp_plan_write_text(s->plan, s->graph, &own, err));
    const char *text = own;
    const int first = mp_communicator_rank(r->world) / of_one_graph(t, r) * of_one_graph(t, r);
    MP_CHECK(mp_communicator_hand_out(r->world, of_one_graph(t, r), &text, pool, timeout, what, err));
    return s->plan ? MP_OK : take_plan(t, text, first, all[first].held_bytes, err);
}

mp_status train_agree_on_data(const options *o, const train_outcome *t, ranks *r, const seen_data *seen, mp_error *err)
{
    const mp_plan *plan = t->subject.plan;
    const double timeout = o->training.timeout > 0 ? o->training.timeout : PLANNING_SECONDS;
    const mp_fact facts[] = {{"plan", plan->steps, plan->n_steps * sizeof *plan->steps},
                             {"set of data (--data)", &seen->data, sizeof seen->data},
                             {"set of data to test on (--test)", &seen->test, sizeof seen->test}};
    const mp_fact of_all[] = {{"number of samples (--data)", &seen->n_data, sizeof seen->n_data},
                              {"number of samples to test on (--test)", &seen->n_test, sizeof seen->n_test}};
    if (!r->world) return MP_OK;
    r->compares = true;
    MP_CHECK(mp_ranks_agree(r->world, of_one_graph(t, r), facts, sizeof facts / sizeof *facts, timeout, err));
    MP_CHECK(mp_ranks_agree(r->world, mp_communicator_size(r->world), of_all, sizeof of_all / sizeof *of_all, timeout, err));
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
