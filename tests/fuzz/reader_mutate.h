/* reader_mutate.h - small changes of files that leave most of their structure as it was. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Each writes data[0..n), changed at one place, to `out` (at most `most` bytes) and says how many bytes that is. */
/* A text: a word or number replaced by another of the text or by an odd number, left out, or a stretch of it twice. */
size_t reader_mutate_text(const uint8_t *data, size_t n, uint8_t *out, size_t most, unsigned seed);
/* A message of Protocol Buffers: a field at any depth left out, twice, or with another value; the lengths around it follow. */
size_t reader_mutate_message(const uint8_t *data, size_t n, uint8_t *out, size_t most, unsigned seed);
