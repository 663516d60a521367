/* chunk_numbers.h - the setting row_chunks ("head=8,mlp=4") as numbers per kind of region. */
#pragma once

#include "executor/workload/workload.h"
#include "memplan/workloads/row_chunks.h"

/* Reads the setting row_chunks into n[kind], the number of chunks per kind of region; 1: whole. "head=8,mlp=4" leaves the other
 * kinds whole. "off" leaves all kinds whole. "auto" sets all numbers to 0: memplan is to choose them. MP_INVALID: another
 * text. */
mp_status mp_chunk_numbers_read(const char *text, int n[MP_N_CHUNK_KINDS], mp_error *err);
/* Writes the setting row_chunks for these numbers of chunks: "off", or "head=8,mlp=4". */
void mp_chunk_numbers_write(const int n[MP_N_CHUNK_KINDS], char setting[MP_ROW_CHUNKS_TEXT]);
/* Returns the number of chunks of a kind in a workload; 1: the regions of this kind are whole, or there are none. */
int mp_chunk_numbers_of(const mp_workload *w, mp_chunk_kind kind);
