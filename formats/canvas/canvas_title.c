/* canvas_title.c - appends an information dictionary with the title to a PDF. */
#include "formats/canvas/canvas.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAIL = 64 }; /* number of bytes at the end of the PDF in which "startxref" is searched */

/* Values from the newest trailer of a PDF. The trailer is at the end of its object list. */
typedef struct trailer {
    unsigned long at;         /* position in the file of the cross-reference section that belongs to the trailer */
    unsigned long size, root; /* number of objects in the PDF, and object number of its catalogue */
    bool table;               /* true: the cross-reference section is a table (the older form); false: a stream */
} trailer;

/* Returns the position of a word in bytes[from..to). If the word does not occur, returns `to`. */
static size_t find(const char *bytes, size_t from, size_t to, const char *word)
{
    const size_t length = strlen(word);
    for (; from + length <= to; from++)
        if (!memcmp(bytes + from, word, length)) return from;
    return to;
}

/* Reads the number after a word in bytes[from..to). The byte at `to` must not be a digit. Returns false if there is no such
 * number. */
static bool number_after(const char *bytes, size_t from, size_t to, const char *word, unsigned long *number)
{
    char *end;
    const size_t at = find(bytes, from, to, word);
    if (at == to) return false;
    *number = strtoul(bytes + at + strlen(word), &end, 10);
    return end > bytes + at + strlen(word);
}

static bool read_trailer(const char *bytes, size_t size, trailer *out)
{
    const size_t tail = size > TAIL ? size - TAIL : 0, end = find(bytes, tail, size, "%%EOF");
    if (end == size || !number_after(bytes, tail, end, "startxref", &out->at) || out->at >= end) return false;
    out->table = !strncmp(bytes + out->at, "xref", 4);
    return number_after(bytes, out->at, end, "/Size", &out->size) && number_after(bytes, out->at, end, "/Root", &out->root);
}

/* Writes the title as UTF-16 in hexadecimal digits; the first character is a byte order mark. */
static void put_title(mp_text_builder *out, const char *title)
{
    mp_text_put(out, "<FEFF");
    while (*title) {
        const uint32_t c = mp_canvas_next(&title);
        if (c < 0x10000)
            mp_text_format(out, "%04X", (unsigned)c);
        else
            mp_text_format(out, "%04X%04X", 0xD800 + (unsigned)((c - 0x10000) >> 10),
                           0xDC00 + (unsigned)((c - 0x10000) & 0x3FF));
    }
    mp_text_put(out, ">");
}

void mp_pdf_title_put(mp_text_builder *out, const char *bytes, size_t size, const char *title)
{
    trailer old;
    if (!read_trailer(bytes, size, &old)) return;
    mp_text_put(out, "\n");
    const unsigned long information = (unsigned long)(size + out->length);
    mp_text_format(out, "%lu 0 obj\n<< /Title ", old.size);
    put_title(out, title);
    mp_text_put(out, " >>\nendobj\n");
    const unsigned long section = (unsigned long)(size + out->length);
    if (old.table)
        mp_text_format(out, "xref\n%lu 1\n%010lu 00000 n \ntrailer\n<< /Size %lu /Root %lu 0 R /Info %lu 0 R /Prev %lu >>\n",
                       old.size, information, old.size + 1, old.root, old.size, old.at);
    else
        mp_text_format(out,
                       "%lu 0 obj\n<< /Type /XRef /Size %lu /Root %lu 0 R /Info %lu 0 R /Prev %lu /Index [%lu 2] /W [1 4 1]\n"
                       "/Filter /ASCIIHexDecode /Length 25 >>\nstream\n01%08lX0001%08lX00>\nendstream\nendobj\n",
                       old.size + 1, old.size + 2, old.root, old.size, old.at, old.size, information, section);
    mp_text_format(out, "startxref\n%lu\n%%%%EOF\n", section);
}
