/* algorithms.h - the nodes of a program that a backend can compute in several ways. */
#pragma once

#include "executor/run/program.h"

/* Asks the backend for the algorithms of every node: where there are several, they become the alternatives of the graph's node
 * in the backend's order, its own choice being the base, each with the workspace of its call and the seconds of the base: to be
 * measured. Nodes that have alternatives stay as they are. The graph gets a new hash. MP_NOMEM; what the backend fails with. */
mp_status mp_program_list_algorithms(mp_program *program, mp_error *err);

/* Prepares a call for every alternative of the graph that is an algorithm (memplan/costs_json.h), and gives the alternative the
 * workspace that the call takes here; the graph gets a new hash. MP_UNSUPPORTED: the backend has no algorithm of a name.
 * MP_NOMEM. */
mp_status mp_program_take_algorithms(mp_program *program, mp_error *err);
