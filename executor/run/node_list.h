/* node_list.h - the nodes of a program, with their calls and bindings, listed under other numbers. */
#pragma once

#include "executor/run/program.h"

/* Releases the calls of a node. */
void mp_node_list_release(mp_program_node *node);
/* Lists calls and bindings anew, n of them: number[k] is that of the old node k; -1: it has gone. All others are collectives.
 * MP_NOMEM. O(nodes). */
mp_status mp_node_list_renumber(mp_program *program, const int *number, size_t n, mp_error *err);
