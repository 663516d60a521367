/* node_list.h - gives the nodes of a program new indices after nodes of its graph were added, removed or reordered, and moves
 * their calls and bindings. */
#pragma once

#include "executor/program/program.h"

/* Releases the calls of a node, including the calls of its alternative algorithms. */
void mp_node_list_release(mp_program_node *node);
/* Rebuilds the lists of calls and bindings with n entries. number[k] is the new index of old node k; -1: the node is removed.
 * All other new entries are collectives. MP_NOMEM. O(nodes). */
mp_status mp_node_list_renumber(mp_program *program, const int *number, size_t n, mp_error *err);
