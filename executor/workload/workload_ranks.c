/* workload_ranks.c - the ranks of one training agree on their settings, on one plan per graph, and on their data. */
#include "memplan/ranks/workload_ranks.h"

#include <string.h>

#include "executor/program/stage.h"
#include "executor/ranks/exchanges.h"
#include "executor/run/rank_results.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "formats/base/text.h"
#include "formats/json/plan_json.h"
#include "memplan/check.h"

enum { FACTS_OF_WORKLOAD = 6 };

mp_status mp_workload_agree(const mp_workload *w, mp_communicator *world, const mp_fact *facts, size_t n, double timeout,
                            mp_error *err)
{
    const mp_program *program = w->program;
    const char *graph = program && program->stage ? program->stage->whole_hash : w->graph->hash;
    const bool fast_sums = program && program->fast_sums;
    const mp_pipeline_shape *shape = &w->rank.shape;
    const mp_fact own[FACTS_OF_WORKLOAD] = {
        {"version of memplan", MEMPLAN_VERSION, sizeof MEMPLAN_VERSION},
        {"training graph", graph, sizeof w->graph->hash},
        {"order of sums (--reduce)", &fast_sums, sizeof fast_sums},
        {"schedule", &shape->schedule, sizeof shape->schedule},
        {"number of micro-batches", &shape->n_micro_batches, sizeof shape->n_micro_batches},
        {"cut of the network into stages", w->begins, (size_t)(shape->n_ranks * shape->n_chunks) * sizeof *w->begins}};
    MP_OWNED mp_fact *all = mp_alloc(n + FACTS_OF_WORKLOAD, sizeof *all);
    if (!all) return MP_NO_MEMORY(err);
    memcpy(all, own, sizeof own);
    if (n) memcpy(all + FACTS_OF_WORKLOAD, facts, n * sizeof *facts);
    return mp_communicator_agree(world, all, n + FACTS_OF_WORKLOAD, timeout, err);
}

int mp_workload_ranks_of_graph(const mp_workload *w, const mp_communicator *world)
{
    return mp_communicator_size(world) / (int)w->ranks.mesh.size[MP_DIM_PP];
}

/* Returns the number of the first rank that has this rank's graph. */
static int first_of_graph(const mp_workload *w, const mp_communicator *world)
{
    const int n = mp_workload_ranks_of_graph(w, world);
    return mp_communicator_rank(world) / n * n;
}

bool mp_workload_searches(const mp_workload *w, const mp_communicator *world)
{
    return !world || mp_communicator_rank(world) == first_of_graph(w, world);
}

/* A rank's message to the others after its search: the status code of a failed search, and the bytes of stash that its plan
 * needs. */
typedef struct ended_search {
    int64_t code, held_bytes;
} ended_search;

/* Reads the plan that another rank sent, and checks it on this rank's graph. */
static mp_status take_plan(mp_workload *w, const char *text, int from, int64_t held_bytes, mp_error *err)
{
    MP_CHECK(mp_workload_hold(w, &held_bytes, err));
    mp_status st = mp_plan_read_text(text, mp_text("the plan of rank %d", from), w->graph, &w->plan, err);
    if (st == MP_OK) st = mp_plan_check(w->graph, w->plan, err);
    return st == MP_OK ? mp_workload_check_held(w, w->plan->steps, w->plan->n_steps, err) : st;
}

/* Checks the messages of all ranks about their searches. If the search of one rank failed, the function fails on all ranks. */
static mp_status judge(const mp_communicator *world, const ended_search *all, mp_work_end *end, mp_error *err)
{
    const int n = mp_communicator_size(world);
    for (int k = 0; k < n; k++) {
        MP_ENSURE(all[k].code >= 0 && all[k].code < 128 && all[k].held_bytes >= 0 && all[k].held_bytes < MP_NO_LIMIT / 2, err,
                  MP_IO, "rank %d of %d does not say how its search for a plan has ended", k, n);
        if (!all[k].code || end->failed) continue;
        end->failed = (int)all[k].code;
        end->is_other = !end->code;
        MP_FAIL(err, MP_INFEASIBLE, "rank %d of %d has found no plan; its own message gives the cause", k, n);
    }
    return end->failed ? MP_INFEASIBLE : MP_OK;
}

mp_status mp_ranks_end_together(mp_communicator *world, mp_work_end *end, const char *work, double timeout, mp_error *err)
{
    const int64_t own = end->code;
    const int n = mp_communicator_size(world);
    MP_OWNED int64_t *all = mp_alloc((size_t)n, sizeof *all);
    if (!all) return MP_NO_MEMORY(err);
    MP_CHECK(mp_communicator_exchange(world, &own, sizeof own, all, timeout, work, err));
    for (int k = 0; k < n && !end->failed; k++) {
        MP_ENSURE(all[k] >= 0 && all[k] < 128, err, MP_IO, "rank %d of %d does not say how %s has ended", k, n, work);
        if (!all[k]) continue;
        end->failed = (int)all[k];
        end->is_other = k != mp_communicator_rank(world);
        MP_FAIL(err, MP_IO, "rank %d of %d has failed; its own message gives the cause", k, n);
    }
    return end->failed ? MP_IO : MP_OK;
}

mp_status mp_workload_share_plan(mp_workload *w, mp_communicator *world, mp_work_end *end, double timeout, mp_error *err)
{
    static const char *const what = "the search for a plan";
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED char *own = NULL;
    MP_OWNED ended_search *all = mp_alloc((size_t)mp_communicator_size(world), sizeof *all);
    ended_search ended = {.code = end->code};
    if (!pool || !all) return MP_NO_MEMORY(err);
    if (!w->plan && mp_workload_searches(w, world) && !ended.code) ended.code = end->code = 1; /* its search left no plan */
    if (w->plan && w->rank.held >= 0 && w->rank.shape.n_ranks)
        ended.held_bytes = w->graph->storages[w->rank.held].payload_bytes;
    MP_CHECK(mp_communicator_exchange(world, &ended, sizeof ended, all, timeout, what, err));
    MP_CHECK(judge(world, all, end, err));
    if (w->plan) MP_CHECK(mp_plan_write_text(w->plan, w->graph, &own, err));
    const char *text = own;
    const int first = first_of_graph(w, world);
    MP_CHECK(mp_communicator_hand_out(world, mp_workload_ranks_of_graph(w, world), &text, pool, timeout, what, err));
    return w->plan ? MP_OK : take_plan(w, text, first, all[first].held_bytes, err);
}

mp_status mp_workload_agree_on_data(const mp_workload *w, mp_communicator *world, const mp_fact *of_stage, size_t n_of_stage,
                                    const mp_fact *of_all, size_t n_of_all, double timeout, mp_error *err)
{
    MP_OWNED mp_fact *facts = mp_alloc(n_of_stage + 1, sizeof *facts);
    if (!facts) return MP_NO_MEMORY(err);
    facts[0] = (mp_fact){"plan", w->plan->steps, w->plan->n_steps * sizeof *w->plan->steps};
    if (n_of_stage) memcpy(facts + 1, of_stage, n_of_stage * sizeof *of_stage);
    MP_CHECK(mp_ranks_agree(world, mp_workload_ranks_of_graph(w, world), facts, n_of_stage + 1, timeout, err));
    return mp_ranks_agree(world, mp_communicator_size(world), of_all, n_of_all, timeout, err);
}

mp_status mp_workload_agree_on_inputs(const mp_workload *w, mp_communicator *world, const mp_workload_inputs *in,
                                      double timeout, mp_error *err)
{
    const mp_fact of_stage[] = {{"set of data (--data)", &in->data_digest, sizeof in->data_digest},
                                {"set of data to test on (--test)", &in->test_digest, sizeof in->test_digest}};
    const mp_fact of_all[] = {{"number of samples (--data)", &in->n_samples, sizeof in->n_samples},
                              {"number of samples to test on (--test)", &in->n_test_samples, sizeof in->n_test_samples}};
    return mp_workload_agree_on_data(w, world, of_stage, sizeof of_stage / sizeof *of_stage, of_all,
                                     sizeof of_all / sizeof *of_all, timeout, err);
}
