/* process_memory.h - the memory that a PyTorch process requires on a GPU: the caching allocator's memory, the CUDA context,
 * loaded kernels and handles of libraries. Constants and their sources: estimator/training/process.def.
 *
 *     // given: int64_t reserved_bytes; mp_process_memory *memory; mp_error *err
 *     if (!mp_process_memory_of("a100", "transformer", reserved_bytes, memory))
 *         return MP_FAIL(err, MP_INVALID, "the table has no such card"); */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct mp_process_memory {
    int64_t context_bytes;   /* the CUDA context with loaded kernels and library handles */
    int64_t workspace_bytes; /* workspace of a cuBLAS handle. It is a part of the allocator's memory. */
    int64_t card_bytes;      /* memory of the card that programs see; 0: unknown. Without a measurement: the data sheet's memory
                                less the part of the reserve (devices.def) that the process does not use */
    int64_t process_bytes;   /* memory of the process: reserved_bytes + context_bytes */
    int64_t likely_bytes;    /* 19 of 20 measured jobs of the family ran in this memory, which includes the context */
    int64_t n_jobs;          /* number of measured jobs of the family; 0: none, so that likely_bytes is an assumption */
    int64_t median_error;    /* median error of the estimate in these jobs, per mille; 0 if n_jobs is 0 */
    int64_t margin;          /* difference of likely_bytes and process_bytes, per mille of reserved_bytes */
    int64_t n_processors;    /* streaming multiprocessors of the card */
    int64_t capability;      /* compute capability of the card times 10, such as 86 for 8.6 */
} mp_process_memory;

/* Computes the memory of a process whose caching allocator reserves reserved_bytes. `card`: a row of process.def, or the card
 * name that the driver reports. `family`: for captured scripts "convolution", "transformer" or "other"; for graphs the other
 * rows of FAMILY in process.def. Returns false for an unknown card or family, and for negative bytes. O(cards). */
bool mp_process_memory_of(const char *card, const char *family, int64_t reserved_bytes, mp_process_memory *out);

/* Returns the bytes that the allocator may reserve so that 19 of 20 jobs of the family run on a card of card_bytes (0: taken
 * from the card's row). other_bytes: memory of the process besides the allocator and the context. Returns 0 if nothing is left,
 * -1 for an unknown card or family. O(cards). */
int64_t mp_process_room(const char *card, const char *family, int64_t card_bytes, int64_t other_bytes);
