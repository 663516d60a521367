/* process.h - the memory of this process according to the operating system, and a count of running library calls. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Return the current resident bytes of this process, and the peak of resident bytes since the process began or since the
 * last mp_process_forget_peak. -1: the system does not report it. */
int64_t mp_process_bytes(void);
int64_t mp_process_peak_bytes(void);
/* Resets the peak of resident bytes to their current value, if the system permits it. */
void mp_process_forget_peak(void);

/* The number of running calls into libraries that do not check allocations. These are Graphviz with its drawing libraries,
 * and oneDNN during preparation. If memory runs out, such a library crashes without a message, also in its own threads.
 * Signal handlers read this count to report the cause. */
extern atomic_int mp_library_works;
