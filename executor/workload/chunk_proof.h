/* chunk_proof.h - a bound and a floor that hold for plans with any numbers of chunks of rows. */
#pragma once

#include "executor/workload/chunk_choice.h"

/* Completes `shared`, so that shared_bytes holds for all candidates. Errors as mp_chunk_build. */
mp_status mp_chunk_share(mp_chunk_choice *c);
/* Computes the bounds of all candidates that may be faster than the chosen candidate. If the graphs of these candidates have
 * too many nodes, computes none of the bounds. Errors as mp_chunk_score. */
mp_status mp_chunk_prove(mp_chunk_choice *c, int chosen);
/* Sets out->other_ticks and out->floor_bytes, which are proved for all candidates. */
void mp_chunk_proofs(const mp_chunk_choice *c, int chosen, mp_row_chunks_choice *out);
