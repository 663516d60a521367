/* print.c - outputs safe texts to a file or a buffer. */
#include "cli/messages/print.h"

#include <string.h>

#include "formats/base/visible_format.h"

static void put_in_file(void *to, const char *bytes, size_t n)
{
    (void)fwrite(bytes, 1, n, to); /* whether a write failed is checked once, at the end of the program */
}

int print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t n = mp_visible_format(put_in_file, stdout, format, &args);
    va_end(args);
    return (int)n;
}

int print_to(FILE *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t n = mp_visible_format(put_in_file, to, format, &args);
    va_end(args);
    return (int)n;
}

typedef struct buffer {
    char *text;
    size_t size, n;
} buffer;

static void put_in_buffer(void *to, const char *bytes, size_t n)
{
    buffer *b = to;
    const size_t fits = n < b->size - b->n ? n : b->size - b->n;
    memcpy(b->text + b->n, bytes, fits);
    b->n += fits;
}

void print_text(char *text, size_t size, const char *format, va_list args)
{
    buffer b = {text, size - 1, 0};
    va_list copy;
    va_copy(copy, args);
    mp_visible_format(put_in_buffer, &b, format, &copy);
    va_end(copy);
    text[b.n] = '\0';
}
