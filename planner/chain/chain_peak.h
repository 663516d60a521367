/* chain_peak.h - the peak memory of a run of one block of a chain. */
#pragma once

#include "planner/chain/chain_blocks.h"

bool mp_chain_is_forward(const mp_chain *chain, int storage);
/* Part of what block k takes from the block before; of what it hands to the next. */
bool mp_chain_is_input(const mp_chain *chain, int k, int storage);
bool mp_chain_is_output(const mp_chain *chain, int k, int storage);

/* Work space of the derivation, kept from run to run. */
typedef struct mp_chain_peaks {
    const mp_chain *chain;
    int k;                      /* the block */
    const bool *kept;           /* per storage: kept for backward of the block */
    bool backward;              /* the run is backward and what it lacks, not forward */
    bool with_input;            /* the block's input is counted */
    int *last, *begins, *taken; /* per storage: 1 + the step of its last use, or 0 if it stays; 1 + the step that produced it; 1
                                  + the step in which it was half of an in-place pair */
    bool *is_live;
} mp_chain_peaks;

/* Allocates the arrays; false: out of memory. Released with mp_chain_peaks_free in any case. */
bool mp_chain_peaks_new(mp_chain_peaks *peaks, const mp_chain *chain);
void mp_chain_peaks_free(mp_chain_peaks *peaks);

/* The peak of a run that begins with `bytes` in memory. Pinned storages are not counted. O(list lengths of the run). */
int64_t mp_chain_peak(mp_chain_peaks *peaks, const mp_chain_run *run, int64_t bytes);
