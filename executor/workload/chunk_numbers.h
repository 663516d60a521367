/* chunk_numbers.h - the setting row_chunks ("head=8,mlp=4") as numbers per kind of region. */
#pragma once

#include "executor/workload/workload.h"
#include "memplan/workloads/row_chunks.h"

/* Reads the setting row_chunks: sets n[kind] to the number of chunks, 1 for kinds that stay whole. "off" leaves all kinds
 * whole. "auto" sets all numbers to 0: they are open. MP_INVALID: other texts than "head=8,mlp=4". */
mp_status mp_chunk_numbers_read(const char *text, int n[MP_N_CHUNK_KINDS], mp_error *err);
/* Writes the setting for these numbers of chunks. */
void mp_chunk_numbers_write(const int n[MP_N_CHUNK_KINDS], char setting[MP_ROW_CHUNKS_TEXT]);
/* Returns the number of chunks of a kind in a workload; 1: the regions of this kind are whole, or there are none. */
int mp_chunk_numbers_of(const mp_workload *w, mp_chunk_kind kind);
