/* collective.h - builds the records of collectives (memplan/ranks/collective.h). */
#pragma once

#include "estimator/network/ranges.h"
#include "memplan/graph.h"

/* Appends a leg to a record, with its seconds on a network. The record must have room for the leg. O(1). */
void mp_collective_add(mp_collective_record *record, const mp_interconnect *network, mp_algorithm algorithm, mp_collective kind,
                       mp_dim dim, mp_rank_group group, int64_t bytes);
/* Adds the send of a tensor of `bytes` bytes to the next pipeline stage; `stages` are the ranks of both stages. If
 * mp_mesh_scatters, each rank of tp sends its part, and the ranks of the next stage gather the tensor over tp. */
void mp_collective_add_send(mp_collective_record *record, const mp_interconnect *network, mp_algorithm algorithm,
                            const mp_mesh *mesh, mp_rank_group stages, int64_t bytes);
/* Returns the bytes that a rank sends in one run of a record: exactly, or with rank NULL the mean over the ranks. 0 for a
 * record of a receive. O(n_moved). */
int64_t mp_collective_record_sent(const mp_graph *graph, const mp_collective_record *record, const mp_traffic_rank *rank);
/* Returns the sum of the seconds of all legs of a record. A leg is the collective over one dimension of the mesh. */
double mp_collective_record_seconds(const mp_collective_record *record);
/* Returns the leg over a dimension of the mesh; NULL: the record is NULL or has no such leg. */
const mp_collective_leg *mp_collective_leg_over(const mp_collective_record *record, mp_dim dim);
/* True if a backward node is an operator's exchange of a gradient over tp. A sum of parameter gradients is not such an
 * exchange. */
bool mp_exchanges_gradient(const mp_node *node);
