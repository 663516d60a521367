/* row_chunks.h - reads the setting row_chunks, for the passes of a workload. */
#pragma once

#include "memplan/error.h"

/* Reads "off" or "auto" (*n is 1) or "head=N". MP_INVALID: other texts. */
mp_status mp_row_chunks_read(const char *text, int *n, mp_error *err);
