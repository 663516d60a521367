/* rank_traffic.h - prints the bytes that a rank sends in a step. */
#pragma once

#include <jansson.h>

#include "memplan/workload.h"

/* Prints the number of ranks and the bytes that the workload's rank sends in a training step. Prints nothing for a single
 * rank. */
void print_rank_traffic(const mp_workload *s, const mp_rank_traffic *sent);
/* Returns the numbers of print_rank_traffic as a new JSON reference; NULL if out of memory. */
json_t *rank_traffic_json(const mp_workload *s, const mp_rank_traffic *sent);
