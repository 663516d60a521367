/* exchange.h - the exchanges of memplan/ranks/exchange.h, for callers with arrays that are indexed by node. */
#pragma once

#include "memplan/ranks/exchange.h"

/* Like mp_graph_exchange; also writes the new index of each old node. */
mp_status mp_graph_exchange_numbered(mp_graph *graph, const mp_ranks *ranks, int *number, mp_rank_traffic *traffic,
                                     mp_error *err);
