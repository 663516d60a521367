/* graph_order.h - can the baseline run? Part of mp_graph_finish. */
#pragma once

#include "memplan/graph.h"

/* MP_OK: in keep-all every node finds what its base alternative reads. Otherwise MP_PARSE, which names a node on a dependency
 * cycle if there is one, else the node that comes too early. Needs producer and adders. MP_NOMEM. O(total list length). */
mp_status mp_graph_check_order(const mp_graph *graph, mp_error *err);
