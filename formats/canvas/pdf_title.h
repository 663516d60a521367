/* pdf_title.h - the title of a PDF, which Graphviz does not write. Private to formats/. */
#pragma once

#include "formats/base/text.h"

/* Appends to `out` what gives a PDF of `size` bytes this title (UTF-8) if it stands behind it: an incremental update as
 * ISO 32000-1 (7.5.6) describes it, with a table or a stream of cross-references, whichever the file has. Nothing if its end is
 * not understood. O(size of the file's last section + title). */
void mp_pdf_title_put(mp_text_builder *out, const char *bytes, size_t size, const char *title);
