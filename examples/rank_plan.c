/* rank_plan.c - plans each rank of a pipeline of a network known by name, and writes one plan file per rank.
 *
 *     rank_plan NETWORK layers=N BATCH MESH BUDGET        (rank_plan gpt2 layers=4 8 dp=2,pp=2 4GiB)
 */
#include <stdio.h>
#include <stdlib.h>

#include <memplan/memplan.h>

static mp_status plan_rank(const char *network, mp_workload_options *o, int rank, int64_t bytes, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload workload = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    const mp_request request = {.budget_bytes = bytes};
    char number[16], file[40];
    snprintf(number, sizeof number, "%d", rank);
    snprintf(file, sizeof file, "rank%d.json", rank);
    o->rank = number;
    MP_CHECK(mp_workload_load(network, o, &workload, err));
    MP_CHECK(mp_workload_plan(&workload, &request, true, &plan, err));
    MP_ENSURE(plan, err, MP_INFEASIBLE, "rank %d has no plan within %lld bytes", rank, (long long)bytes);
    printf("rank %d: %s, %lld bytes, %s\n", rank, workload.title, (long long)mp_plan_need(plan), file);
    return mp_plan_write(plan, workload.graph, file, err);
}

static mp_status plan(char **words, mp_error *err)
{
    mp_workload_options o = mp_workload_defaults();
    const char *layers[] = {words[2]}, *why;
    mp_budget budget;
    o.dims = (mp_text_list){.n = 1, .items = layers};
    o.batch = strtoll(words[3], NULL, 10);
    MP_CHECK(mp_mesh_read(words[4], &o.mesh, err));
    MP_ENSURE(mp_budget_parse(words[5], &budget, &why), err, MP_INVALID, "the budget %s", why);
    MP_ENSURE(budget.kind == MP_BUDGET_BYTES, err, MP_INVALID, "the budget is not a number of bytes");
    for (int rank = 0; rank < o.mesh.size[MP_DIM_PP]; rank++) MP_CHECK(plan_rank(words[1], &o, rank, budget.bytes, err));
    return MP_OK;
}

int main(int argc, char **argv)
{
    mp_error err = {0};
    if (argc != 6) return fprintf(stderr, "usage: rank_plan NETWORK layers=N BATCH MESH BUDGET\n"), 2;
    if (plan(argv, &err) == MP_OK) return 0;
    fprintf(stderr, "rank_plan: %s\n", err.message);
    return 1;
}
