/* gradient_exchanges.h - exchanges of gradients over tp that run beside compute. */
#pragma once

#include "memplan/ranks/exchange.h"

/* Under PyTorch's rules, moves the operators' exchanges of gradients over tp to a channel "exchanges". Then it calls
 * mp_graph_finish again. Under other rules, or without such exchanges, the graph is unchanged. MP_NOMEM. O(graph). */
mp_status mp_gradient_exchanges_issue(mp_graph *graph, const mp_ranks *ranks, mp_error *err);
