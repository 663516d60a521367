/* windows.h - annealing of large local graphs (turn_around.h), window by window.
 *
 * The list is cut into windows of some thousand nodes, at nodes before which few bytes cross. A window is a closed part
 * (order/part.h), whose plans may take the place of its nodes in the list; so windows are searched apart, several at once, and
 * their orders, one after the other, are the schedule. A move costs what it costs in a graph of a window's size, and the whole
 * search time and memory in proportion to the nodes.
 */
#pragma once

#include "memplan/search.h"

/* True if the graph of a search is local, and can be cut. */
bool mp_anneal_has_windows(const mp_graph *graph);

/* One walk through each window in which keep-all is over the budget, from keep-all on, and one offer of the whole. `unit`: that
 * of all temperatures, in ticks. Errors as mp_search_offer. O(nodes * MP_ANNEAL_LOCAL_MOVES) moves, O(graph) memory. */
mp_status mp_anneal_windows(mp_search *search, double unit, mp_error *err);
