/* quantities.h - parses and formats numbers for users: bytes, budgets, counts, times. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/text.h"

/* Parses a whole number in decimal digits. Returns false for any other text, and for a number that is too large. */
bool parse_count(const char *text, int64_t *count);

/* A budget as the user writes it for --budget. It is a number of bytes, a percentage of the peak of keep-all, or a point
 * between the smallest plan (min) and keep-all. `auto` is the free memory of the device, and `device` is its whole memory. */
typedef struct budget {
    enum { BUDGET_BYTES, BUDGET_OF_PEAK, BUDGET_ABOVE_MIN, BUDGET_FREE, BUDGET_DEVICE } kind;
    int64_t bytes;
    double percent;
    const char *bare; /* the user's text if the budget is a number of bytes without a unit; otherwise NULL */
} budget;

/* Parses a budget: "8GiB", "800MB", "16e9", "1.5 GiB", "60%", "min", "min+50%", "auto", "device". "floor" is a synonym of
 * "min". On failure returns false; *why is then the reason, worded as the end of a sentence. */
bool budget_parse(const char *text, budget *out, const char **why);
/* True if the budget is relative to the memory of the device (auto, device). */
bool budget_is_of_device(const budget *b);
/* Returns the bytes of a budget that does not depend on the device, rounded down. peak_bytes is the peak of keep-all;
 * smallest_bytes is the memory of the smallest plan. For other budgets use room_budget. */
int64_t budget_resolve(const budget *b, int64_t peak_bytes, int64_t smallest_bytes);

/* Returns the reason why a budget without a unit is probably a mistake, worded as the end of a sentence ("60 is 60 bytes; did
 * you mean 60%?"). Returns NULL if the budget is plausible. peak_bytes is the peak of keep-all. */
const char *budget_lacks_unit(const budget *b, int64_t peak_bytes);

/* Return formatted texts. They are allocated by mp_text (formats/base/text.h), so the caller need not release them. */
const char *count_text(int64_t count);    /* "7,978,123,456" */
const char *seconds_text(double seconds); /* "12.3 ms" */
const char *flops_text(double flops);     /* "262.1 GFLOP" */
/* Returns the difference between `value` and `base`, in per cent of `base`: "+12.3 %"; "0 %" if they are equal. */
const char *extra_text(double value, double base);
