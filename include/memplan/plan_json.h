/* plan_json.h - plans as JSON ("memplan-plan", version 1; docs/reference/formats.md describes it).
 *
 *     MP_CHECK(mp_plan_read("plan.json", graph, &plan, err));    // MP_INVALID: it is for another graph
 *     MP_CHECK(mp_plan_check(graph, plan, err));                 // what comes from elsewhere is not trusted
 */
#pragma once

#include "memplan/plan.h"

/* Reads a plan for this graph (ids are translated into indices). MP_PARSE: malformed, or it names a node, storage or checkpoint
 * the graph does not have; MP_INVALID: made for another graph (the hashes differ; a file without a hash is taken at its word).
 * MP_IO, MP_NOMEM. The plan is not checked: memplan/check.h. */
mp_status mp_plan_read(const char *path, const mp_graph *graph, mp_plan **out, mp_error *err);
/* Writes a plan beside `path` and renames it: the file is whole or untouched; "-" is standard output. MP_IO, MP_NOMEM. */
mp_status mp_plan_write(const mp_plan *plan, const mp_graph *graph, const char *path, mp_error *err);
