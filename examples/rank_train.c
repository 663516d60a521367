/* rank_train.c - plans, checks and trains one rank of a mesh on random data, and prints the losses and the bytes sent.
 *
 *     mpirun -n 4 rank_train MODEL BATCH MESH PERCENT MICRO_BATCHES STEPS    (rank_train cnn.onnx 16 dp=2,pp=2 90 4 3)
 *
 * PERCENT of the peak of keep-all is the budget of each rank.
 */
#include <stdio.h>
#include <stdlib.h>

#include <memplan/memplan.h>

enum { SECONDS = 60 }; /* time after which a silent rank counts as lost */

/* The first rank of each graph searches for a plan. The other ranks with this graph receive and check it. */
static mp_status plan(mp_workload *w, mp_communicator *world, double percent, mp_error *err)
{
    mp_work_end end = {0};
    mp_error others = {0};
    mp_status st = MP_OK;
    if (mp_workload_searches(w, world)) {
        const mp_step *steps;
        const mp_timeline *keep_all;
        MP_CHECK(mp_problem_keep_all(w->problem, &steps, &keep_all, err));
        const mp_request request = {.budget_bytes = (int64_t)(percent / 100 * (double)keep_all->peak_bytes)};
        st = mp_workload_plan(w, &request, true, &w->plan, err);
        end.code = st != MP_OK;
    }
    const mp_status shared = mp_workload_share_plan(w, world, &end, SECONDS, &others);
    if (st == MP_OK && shared != MP_OK) *err = others;
    return st == MP_OK ? shared : st;
}

static mp_status train(const mp_workload *w, mp_communicator *world, int64_t n_steps, mp_error *err)
{
    const mp_workload_inputs_request from = {.world = world};
    MP_CLEARED_BY(mp_workload_inputs_free) mp_workload_inputs inputs = {0};
    MP_CLEARED_BY(mp_report_free) mp_report report = {0};
    MP_CHECK(mp_workload_open_inputs(w, &from, &inputs, err));
    MP_CHECK(mp_workload_agree_on_inputs(w, world, &inputs, SECONDS, err));
    const mp_train_request request = {.program = w->program,
                                      .plan = w->plan,
                                      .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM), .world = world},
                                      .feed = inputs.feed,
                                      .parameters = inputs.parameters,
                                      .n_steps = n_steps};
    MP_CHECK(mp_train(&request, &report, err));
    for (size_t k = 0; k < report.n_losses && !mp_communicator_rank(world); k++)
        printf("step %zu: loss %.17g\n", k + 1, report.losses[k]);
    const mp_rank_report *own = &report.ranks[mp_communicator_rank(world)];
    printf("rank %d: planned %lld bytes, measured %lld; sends %lld bytes, planned %lld; weights %s\n",
           mp_communicator_rank(world), (long long)own->planned_peak_bytes, (long long)own->measured_peak_bytes,
           (long long)own->sent_bytes, (long long)own->planned_sent_bytes, own->weights_hash);
    return MP_OK;
}

static mp_status run(char **words, mp_communicator *world, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload w = {0};
    mp_workload_options o = mp_workload_defaults();
    char stage[16];
    o.device = "cpu";
    o.optimizer = "momentum";
    o.trains = true;
    o.batch = strtoll(words[2], NULL, 10);
    MP_CHECK(mp_mesh_read(words[3], &o.mesh, err));
    if (o.mesh.size[MP_DIM_PP] > 1) {
        snprintf(stage, sizeof stage, "%d", mp_communicator_rank(world) / (int)mp_mesh_group(&o.mesh, MP_DIM_PP).stride);
        o.rank = stage;
        o.micro_batches = strtoll(words[5], NULL, 10);
    }
    MP_CHECK(mp_workload_load(words[1], &o, &w, err));
    MP_CHECK(mp_workload_check_trains(&w, err));
    MP_CHECK(mp_workload_agree(&w, world, NULL, 0, SECONDS, err));
    MP_CHECK(plan(&w, world, strtod(words[4], NULL), err));
    MP_CHECK(mp_plan_check(w.graph, w.plan, err));
    return train(&w, world, strtoll(words[6], NULL, 10), err);
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    mp_communicator *world = NULL;
    if (argc != 7) return fprintf(stderr, "usage: rank_train MODEL BATCH MESH PERCENT MICRO_BATCHES STEPS\n"), 2;
    mp_status st = mp_communicator_open("mpi", &world, &err);
    if (st == MP_OK) st = run(argv, world, &err);
    if (st != MP_OK) fprintf(stderr, "rank_train: %s: %s\n", argv[1], err.message);
    fflush(stdout);
    if (st == MP_OK) mp_communicator_close(world);
    return st != MP_OK;
}
