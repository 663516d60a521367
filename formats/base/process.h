/* process.h - the memory of this process, as the operating system counts it, and the libraries at work in it. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Return the resident bytes now, and their peak since the process began or mp_process_forget_peak was last called; -1
 * if the system does not say. */
int64_t mp_process_bytes(void);
int64_t mp_process_peak_bytes(void);
/* Starts to measure the peak anew, where the system allows it. */
void mp_process_forget_peak(void);

/* Counts the calls in progress into libraries that do not check allocations: Graphviz with what it draws with, and
 * oneDNN while it prepares. When memory runs out they crash without a message, also in threads of theirs. Signal
 * handlers read it. */
extern atomic_int mp_library_works;
