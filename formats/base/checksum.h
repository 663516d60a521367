/* checksum.h - checksums of files, as xxh128sum prints them. */
#pragma once

#include "formats/base/file.h"

enum { MP_CHECKSUM_TEXT = 33 };

/* Computes the checksum (XXH3, 128 bits) of a file whose content is the given parts in order, as 32 hexadecimal digits.
 * MP_NOMEM. O(bytes). */
mp_status mp_checksum_of(const mp_file_part *parts, size_t n, char text[MP_CHECKSUM_TEXT], mp_error *err);
