/* chain_graph.h - a chain of equal layers, with peaks that are easy to compute by hand. */
#pragma once

#include "memplan/graph.h"

/* Makes layers f1..fn: each reads the previous activation and writes one of `bytes`. Then a loss and backward bn..b1: bk reads
 * the gradient of activation k and the activation before layer k, and writes the gradient of the latter. Parameters have
 * static_bytes. Forward takes one tick, backward two. Without `backward`, only the layers. */
mp_status chain_graph(int n, int64_t bytes, int64_t static_bytes, bool backward, mp_graph **out, mp_error *err);

/* Returns keep-all's peak: the first backward nodes have all activations except the last, and two gradients. */
int64_t chain_keep_all_bytes(int n, int64_t bytes, int64_t static_bytes);
