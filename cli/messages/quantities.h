/* quantities.h - formats numbers for people: bytes, counts, times. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/text.h"

/* These functions return formatted texts, which mp_text (formats/base/text.h) allocates. */
const char *count_text(int64_t count);    /* "7,978,123,456" */
const char *seconds_text(double seconds); /* "12.3 ms" */
const char *flops_text(double flops);     /* "262.1 GFLOP" */
