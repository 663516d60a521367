/* exchange.h - the exchanges of memplan/ranks/exchange.h, for those who have lists beside the graph's nodes. */
#pragma once

#include "memplan/ranks/exchange.h"

/* As mp_graph_exchange, and writes for each old node its number in the new list. */
mp_status mp_graph_exchange_numbered(mp_graph *graph, const mp_ranks *ranks, int *number, mp_rank_traffic *traffic,
                                     mp_error *err);
