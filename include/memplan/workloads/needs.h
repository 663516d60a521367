/* needs.h - the memory that a process requires to run an order of steps on a card: tensors, the memory that an allocator
 * reserves for them, the CUDA context, and buffers of NCCL.
 *
 * PyTorch's caching allocator is simulated over three steps (caching_allocator.h). A script's variables keep the outputs of the
 * model until the next forward returns new outputs. The optimizer's state is allocated in the first update. Updates run as
 * PyTorch's foreach optimizers: all gradients, and temporary copies of all parameters, exist until the last update has run. The
 * first product in forward and the first in backward allocate a workspace of cuBLAS. If the card is full, the allocator frees
 * cached blocks.
 *
 * memplan's executor has no allocator: it reserves static memory and one arena.
 *
 *     // given: const mp_graph *graph; const mp_step *steps; const mp_timeline *timeline; mp_error *err
 *     const mp_needs_terms terms = {.card = "a100", .family = "transformer", .arena_bytes = -1, .has_products = true};
 *     mp_needs needs;
 *     MP_CHECK(mp_needs_of(graph, steps, timeline, &terms, &needs, err));
 *     printf("19 of 20 such jobs run in %lld bytes\n", (long long)needs.likely_bytes); */
#pragma once

#include "memplan/timeline.h"

/* The process that runs the steps. */
typedef struct mp_needs_terms {
    const char *card;    /* as in mp_process_memory_of; "": unknown */
    const char *family;  /* as in mp_process_memory_of */
    int64_t card_bytes;  /* memory of the card that programs see; 0: taken from the card's row in process.def */
    int64_t arena_bytes; /* bytes of the executor's arena; -1: PyTorch's caching allocator is simulated */
    bool has_products;   /* true: the network has matrix products */
    const char *network; /* the name of the network in a node, such as "nvlink4" */
    int n_communicators; /* number of NCCL communicators of the process */
} mp_needs_terms;

typedef struct mp_needs {
    int64_t tensors_bytes;  /* peak bytes of tensors and workspaces */
    int64_t reserved_bytes; /* peak bytes that the allocator reserves */
    int64_t nccl_bytes;     /* buffers of NCCL */
    int64_t process_bytes;  /* reserved memory, buffers of NCCL and the CUDA context; -1: the card is unknown */
    int64_t likely_bytes;   /* 19 of 20 measured jobs of the family ran in this memory; -1: the card is unknown */
    /* likely_bytes with PYTORCH_ALLOC_CONF=expandable_segments:True, if only expandable segments fit the card; otherwise -1 */
    int64_t expandable_bytes;
    int64_t card_bytes;   /* memory of the card that programs see; 0: unknown */
    int64_t n_jobs;       /* number of measured jobs of the family; 0: likely_bytes is an assumption */
    int64_t median_error; /* median error of the estimate in these jobs, per mille */
    const char *family;   /* mp_needs_terms.family */
} mp_needs;

/* Computes the needs of steps and their timeline. MP_INVALID: sizes that cannot be counted. MP_NOMEM. O(spans * log(spans)). */
mp_status mp_needs_of(const mp_graph *graph, const mp_step *steps, const mp_timeline *timeline, const mp_needs_terms *terms,
                      mp_needs *out, mp_error *err);

/* Returns the bytes that tensors may occupy so that likely_bytes is within the card. Reserved memory besides tensors is assumed
 * to be constant. If these needs exceed the card, it is assumed to be proportional to the tensors. tensors_bytes: the bytes of
 * tensors in these needs, as the caller counts them. O(1). */
int64_t mp_needs_room(const mp_needs *needs, int64_t tensors_bytes);

/* Returns the buffers of n communicators of NCCL. `network`: the network in a node, such as "nvlink4". O(rows). */
int64_t mp_nccl_bytes(const char *network, int n_communicators);
