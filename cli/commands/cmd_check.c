/* cmd_check.c - the command check: replays a plan and reports whether its claims are true. */
#include <stdio.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/outputs.h"
#include "cli/reports/report.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "formats/base/text.h"
#include "formats/json/plan_json.h"
#include "memplan/check.h"
#include "memplan/solver.h"

/* True if the plan claims a lower bound and --prove-bound was not given, so that the bound is not checked. */
static bool leaves_bound(const search_options *o, const mp_plan *plan)
{
    return plan->lower_bound_seconds >= 0 && !o->prove_bound;
}

/* Prints the bytes that the plan needs in each tier other than the device. */
static void print_tiers(const mp_graph *graph, const mp_plan *plan)
{
    for (int m = 1; m < (int)graph->n_tiers; m++)
        print("%s %s bytes (%s), ", graph->tiers[m], count_text(mp_plan_tier_need(graph, plan, m)),
              plan->tiers[m].arena_bytes < 0
                  ? "at its peak, without offsets"
                  : mp_arena_text(plan->tiers[m].arena_bytes, plan->tiers[m].peak_bytes - plan->tiers[m].static_bytes));
}

static int answer(const options *o, const char *path, const mp_graph *graph, const mp_plan *plan, const mp_error *fault)
{
    bool holds = fault->code == MP_OK;
    if (o->talk.json) {
        int rc = print_json(
            "check",
            json_pack("{s:b, s:s?, s:o}", "holds", holds, "fault", holds ? NULL : fault->message, "not_verified",
                      holds && leaves_bound(&o->search, plan) ? json_pack("[s]", "lower_bound_seconds") : json_array()));
        if (rc) return rc;
    } else if (holds) {
        print("%s holds: %zu step%s, peak %s (%s bytes), ", path, plan->n_steps, plan->n_steps == 1 ? "" : "s",
              mp_bytes_text(plan->peak_bytes), count_text(plan->peak_bytes));
        if (plan->n_places && plan->arena_bytes >= 0)
            print("arena %s bytes (%s), ", count_text(plan->arena_bytes),
                  mp_arena_text(plan->arena_bytes, mp_plan_live_bytes(plan)));
        print_tiers(graph, plan);
        print("%s", seconds_text(plan->seconds));
        if (leaves_bound(&o->search, plan))
            print("; not verified: that nothing takes less than %s (--prove-bound)", seconds_text(plan->lower_bound_seconds));
        print("\n");
    } else {
        print("%s does not hold: %s\n", path, fault->message);
    }
    return holds ? EXIT_DONE : EXIT_NO;
}

int cmd_check(options *o)
{
    const char *path = o->operands[1];
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    const char *of_rank = output_part(path, "rank", 0);
    if (access(path, F_OK) && !access(of_rank, F_OK))
        return usage_error("%s: no such file; a pipeline has a plan per rank: check %s", path, of_rank);
    if (load_workload_as_planned(o->operands[0], path, o, &s, &err) != MP_OK) return input_failed(&err);
    mp_status st = mp_plan_read(path, s.graph, &plan, &err);
    if (st == MP_OK) st = mp_plan_check(s.graph, plan, &err);
    if (st == MP_OK) st = mp_workload_check_held(&s, plan->steps, plan->n_steps, &err);
    if (st == MP_OK) st = mp_plan_check_proofs(s.graph, plan, o->search.prove_bound, &err);
    if (st != MP_OK) mp_error_locate(&err, path, 0, 0);
    return st == MP_OK || st == MP_REFUTED ? answer(o, path, s.graph, plan, &err) : input_failed(&err);
}
