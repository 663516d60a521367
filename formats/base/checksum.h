/* checksum.h - checksums of files, in the form that the program xxh128sum prints. */
#pragma once

#include "formats/base/file.h"

enum { MP_CHECKSUM_TEXT = 33 };

/* Computes the checksum (XXH3, 128 bits) of a file, as 32 hexadecimal digits. The content of the file is the concatenation
 * of the given parts. MP_NOMEM. O(bytes). */
mp_status mp_checksum_of(const mp_file_part *parts, size_t n, char text[MP_CHECKSUM_TEXT], mp_error *err);
