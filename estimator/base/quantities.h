/* quantities.h - parses numbers as users write them: counts, decimal numbers, bytes with a unit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Parses a whole number in decimal digits. Returns false for any other text, and for a number that is too large. */
bool mp_count_parse(const char *text, int64_t *count);
/* Parses the number at the start of `text`: decimal digits, at most one point and an exponent (no sign, hexadecimal or "inf").
 * *end is the rest of the text. *exact is set for a plain integer, which a double might not represent; otherwise -1. */
bool mp_number_parse(const char *text, const char **end, double *value, int64_t *exact);
/* Parses a number of bytes: "8GiB", "800MB", "16e9", "1.5 GiB". *bare: the text has no unit. On failure returns false, and *why
 * is the reason, as the end of a sentence. */
bool mp_bytes_parse(const char *text, int64_t *bytes, bool *bare, const char **why);
