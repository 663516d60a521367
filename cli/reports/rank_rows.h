/* rank_rows.h - prints the measurements of each rank of a training, and of all ranks together. */
#pragma once

#include "cli/options/options.h"
#include "cli/reports/train_ranks.h"

void print_ranks(const train_outcome *t);
json_t *train_ranks_json(const train_outcome *t); /* NULL: out of memory */
