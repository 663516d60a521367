/* reader_mutate.h - small changes to files that keep most of their structure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Both functions write data[0..n), changed at one place, to `out` (at most `most` bytes) and return the number of bytes. */
/* Text: replaces a word or number by another of the text or by an unusual number, removes it, or repeats a part. */
size_t reader_mutate_text(const uint8_t *data, size_t n, uint8_t *out, size_t most, unsigned seed);
/* Protocol Buffers message: removes or repeats a field at any depth, or changes its value, and adjusts enclosing lengths. */
size_t reader_mutate_message(const uint8_t *data, size_t n, uint8_t *out, size_t most, unsigned seed);
