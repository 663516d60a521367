/* plan_json.h - plans as JSON ("memplan-plan", version 1; the format is described in docs/formats.md). */
#ifndef MEMPLAN_PLAN_JSON_H
#define MEMPLAN_PLAN_JSON_H

#include "memplan/plan.h"

/* Reads a plan for this graph (ids are translated into indices). MP_PARSE: malformed, or it names a node, storage or checkpoint
 * the graph does not have; MP_INVALID: made for another graph (the hashes differ; a file without a hash is taken at its word).
 * MP_IO, MP_NOMEM. The plan is not checked: memplan/check.h. */
mp_status mp_plan_read(const char *path, const mp_graph *graph, mp_plan **out, mp_error *err);
mp_status mp_plan_write(const mp_plan *plan, const mp_graph *graph, const char *path, mp_error *err);

#endif
