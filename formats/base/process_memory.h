/* process_memory.h - what the operating system says this process takes. */
#pragma once

#include <stdint.h>

/* Resident bytes now, and the most there have been since the process began or since the last mp_process_forget_peak. -1: the
 * system does not say. */
int64_t mp_process_bytes(void);
int64_t mp_process_peak_bytes(void);
/* Starts the measuring of the peak anew, where the system allows it. */
void mp_process_forget_peak(void);
