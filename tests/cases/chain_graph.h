/* chain_graph.h - a chain of equal layers, whose peaks can be told by hand. */
#pragma once

#include "memplan/graph.h"

/* Layers f1..fn, each reading the activation before it and making its own of `bytes`; a loss; backward bn..b1, where bk reads
 * the gradient after and the activation before layer k and makes the gradient before it. Parameters of static_bytes. Forward
 * takes one tick, backward two. Without `backward` only the layers. */
mp_status chain_graph(int n, int64_t bytes, int64_t static_bytes, bool backward, mp_graph **out, mp_error *err);

/* Keep-all's peak: at every backward node of the first layers to run, all activations but the last and two gradients. */
int64_t chain_keep_all_bytes(int n, int64_t bytes, int64_t static_bytes);
