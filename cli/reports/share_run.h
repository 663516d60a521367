/* share_run.h - prints the result of `memplan share --run`. */
#pragma once

#include <jansson.h>

#include "memplan/workloads/sharing_run.h"

void print_sharing_run(const mp_sharing *s, const mp_sharing_run *r);
/* Returns the results of both kinds of training, each job alone and all jobs by turns, as a JSON object; NULL if out of
 * memory. */
json_t *sharing_run_json(const mp_sharing_run *r);
