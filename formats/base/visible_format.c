/* visible_format.c - splits a format into its conversions. In the texts of %s, control characters are replaced by visible
 * escapes. snprintf formats all other conversions. */
#include "formats/base/visible_format.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/visible_text.h"

/* The destination of the output. put NULL: bytes are only counted. */
typedef struct sink {
    mp_put_bytes put;
    void *to;
    size_t n;
} sink;

static void put(sink *s, const char *bytes, size_t n)
{
    if (s->put) s->put(s->to, bytes, n);
    s->n += n;
}

/* One conversion of a format, such as "%-*.3s", with each star replaced by its value. precision -1: the conversion states
 * none. */
typedef struct conversion {
    char flags[8];
    int width, precision;
    char length; /* length modifier: 0, 'l', 'z', or 'L' for "ll" */
    char kind;   /* letter of the conversion */
} conversion;

static int read_number(const char **at, va_list *args)
{
    int n = 0;
    if (**at == '*') {
        (*at)++;
        return va_arg(*args, int);
    }
    for (; **at >= '0' && **at <= '9'; (*at)++) n = 10 * n + (**at - '0');
    return n;
}

static conversion read_conversion(const char **at, va_list *args)
{
    conversion c = {.precision = -1};
    const size_t n = strspn(*at, "-+ #0");
    memcpy(c.flags, *at, n < sizeof c.flags ? n : 0);
    *at += n;
    c.width = read_number(at, args);
    if (**at == '.') {
        (*at)++;
        c.precision = read_number(at, args);
    }
    for (; strchr("hlz", **at); (*at)++)
        if (**at != 'h') c.length = **at == 'z' ? 'z' : c.length ? 'L' : 'l';
    c.kind = *(*at)++;
    return c;
}

static void put_visible(sink *s, const char *text, size_t n)
{
    char piece[MP_VISIBLE_MAX];
    for (const char *at = text; at < text + n;) {
        const char *from = at;
        const size_t length = mp_visible_next(&at, piece);
        /* the precision of %s may end within a character of several bytes */
        put(s, piece, at > text + n ? (size_t)(text + n - from) : length);
    }
}

static void put_blanks(sink *s, size_t n)
{
    while (n-- > 0) put(s, " ", 1);
}

static void put_text(sink *s, const conversion *c, const char *text)
{
    const size_t n = c->precision >= 0 ? strnlen(text, (size_t)c->precision) : strlen(text);
    const bool left = strchr(c->flags, '-') || c->width < 0;
    sink shown = {0};
    put_visible(&shown, text, n);
    const size_t width = (size_t)abs(c->width), blanks = width > shown.n ? width - shown.n : 0;
    if (!left) put_blanks(s, blanks);
    put_visible(s, text, n);
    if (left) put_blanks(s, blanks);
}

/* Prints a conversion other than %s by snprintf. */
static void put_value(sink *s, const conversion *c, va_list *args)
{
    char format[32], text[512];
    snprintf(format, sizeof format, "%%%s*.*%s%c", c->flags, c->length == 'L' ? "ll" : (char[]){c->length, '\0'}, c->kind);
#define PUT(value) snprintf(text, sizeof text, format, c->width, c->precision, value)
    if (strchr("eEfFgGaA", c->kind))
        PUT(va_arg(*args, double));
    else if (c->length == 'L')
        PUT(va_arg(*args, long long));
    else if (c->length == 'l')
        PUT(va_arg(*args, long));
    else if (c->length == 'z')
        PUT(va_arg(*args, size_t));
    else
        PUT(va_arg(*args, int));
#undef PUT
    put(s, text, strlen(text));
}

size_t mp_visible_format(mp_put_bytes output, void *to, const char *format, va_list *args)
{
    sink s = {output, to, 0};
    for (const char *at = format; *at;) {
        const size_t plain = strcspn(at, "%");
        put(&s, at, plain);
        at += plain;
        if (!*at) break;
        at++;
        const conversion c = read_conversion(&at, args);
        if (c.kind == '%')
            put(&s, "%", 1);
        else if (c.kind == 's')
            put_text(&s, &c, va_arg(*args, const char *));
        else
            put_value(&s, &c, args);
    }
    return s.n;
}

static void put_in_builder(void *to, const char *bytes, size_t n)
{
    mp_text_put_bytes(to, bytes, n);
}

void mp_visible_put(mp_text_builder *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    mp_visible_format(put_in_builder, out, format, &args);
    va_end(args);
}
