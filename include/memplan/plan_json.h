/* plan_json.h - plans as JSON ("memplan-plan", version 1; docs/reference/formats.md describes it).
 *
 *     // given: const mp_graph *graph; mp_error *err
 *     MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
 *     MP_CHECK(mp_plan_read("plan.json", graph, &plan, err));    // MP_INVALID: the plan belongs to another graph
 *     MP_CHECK(mp_plan_check(graph, plan, err));                 // never trust a plan from elsewhere
 */
#pragma once

#include "memplan/plan.h"

/* Reads a plan for this graph; ids become indices. MP_PARSE: malformed, or the plan names a node, storage or checkpoint that
 * the graph lacks. MP_INVALID: the plan belongs to another graph, because the hashes differ; a file without a hash is accepted.
 * MP_IO, MP_NOMEM. The plan is not checked; mp_plan_check (check.h) does that. */
mp_status mp_plan_read(const char *path, const mp_graph *graph, mp_plan **out, mp_error *err);
/* Writes a plan to a temporary file beside `path` and renames it, so an interrupted write leaves the old file. "-" is standard
 * output. MP_IO, MP_NOMEM. */
mp_status mp_plan_write(const mp_plan *plan, const mp_graph *graph, const char *path, mp_error *err);
