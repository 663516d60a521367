/* pipeline_smallest.h - the smallest budget of a whole pipeline. */
#pragma once

#include "memplan/search.h"
#include "memplan/workload.h"

/* Finds the smallest budget with which mp_workload_plan finds a plan for every rank of the pipeline. With a budget 1 % smaller,
 * some rank has no plan. Loads the workload of each rank with the settings `o`. peak_bytes is the largest peak of a rank in
 * keep-all. If the request has a time limit, or its progress call ends the search, *bytes suffices, but smaller budgets may
 * suffice, too. *bytes is -1 if no budget was found. Errors as mp_workload_load and mp_smallest_plan. Cost: about 10 calls of
 * mp_smallest_plan per rank. */
mp_status mp_pipeline_smallest_budget(const char *path, const mp_workload_options *o, const mp_request *request,
                                      bool with_offsets, int64_t peak_bytes, int64_t *bytes, mp_error *err);
