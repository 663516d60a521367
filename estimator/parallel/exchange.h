/* exchange.h - mp_graph_exchange (memplan/ranks/exchange.h) for callers that must renumber arrays indexed by node. */
#pragma once

#include "memplan/ranks/exchange.h"

/* Like mp_graph_exchange. Also writes to number[i] the new index of the node that had index i before. */
mp_status mp_graph_exchange_numbered(mp_graph *graph, const mp_ranks *ranks, int *number, mp_error *err);
