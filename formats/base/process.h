/* process.h - the memory of this process, as the operating system counts it, and the libraries at work in it. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Return the resident bytes now, and the most there have been since the process began or since the last
 * mp_process_forget_peak; -1 if the system does not say. */
int64_t mp_process_bytes(void);
int64_t mp_process_peak_bytes(void);
/* Starts the measuring of the peak anew, where the system allows it. */
void mp_process_forget_peak(void);

/* Counts the calls in progress into libraries that do not look whether they got memory: Graphviz with what it draws with,
 * oneDNN while it prepares. Without memory they crash, in threads of theirs too, and say nothing. Read by whoever catches
 * signals. */
extern atomic_int mp_library_works;
