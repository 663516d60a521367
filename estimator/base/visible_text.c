/* visible_text.c - decodes UTF-8, and escapes characters that control a terminal. */
#include "estimator/base/visible_text.h"

#include <stdio.h>
#include <string.h>

int32_t mp_utf8_next(const char **text)
{
    const unsigned char *s = (const unsigned char *)*text;
    int more = *s < 0x80 ? 0 : *s >= 0xC2 && *s < 0xE0 ? 1 : *s >= 0xE0 && *s < 0xF0 ? 2 : *s >= 0xF0 && *s < 0xF5 ? 3 : -1;
    int32_t c = more <= 0 ? *s : *s & (0x3F >> more);
    (*text)++;
    if (more < 0) return -1;
    for (int k = 1; k <= more; k++) {
        if ((s[k] & 0xC0) != 0x80) return -1; /* the sequence is invalid; only its first byte is consumed */
        c = c << 6 | (s[k] & 0x3F);
        if (k == 1 && more == 2 && (c < 0x20 || (c >= 0x360 && c < 0x380)))
            return -1; /* invalid: three bytes encode a surrogate, or a character that two bytes can encode */
        if (k == 1 && more == 3 && (c < 0x10 || c >= 0x110))
            return -1; /* invalid: four bytes encode a character that three bytes can encode, or a character over U+10FFFF */
    }
    *text += more;
    return c;
}

bool mp_is_steering(int32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

size_t mp_visible_next(const char **text, char to[MP_VISIBLE_MAX])
{
    const char *from = *text;
    const int32_t c = mp_utf8_next(text);
    if (c < 0x80 && mp_is_steering(c)) return (size_t)snprintf(to, MP_VISIBLE_MAX, "\\x%02x", (unsigned char)*from);
    if (mp_is_steering(c)) return (size_t)snprintf(to, MP_VISIBLE_MAX, "\\u%04x", (unsigned)(c & 0xFFFF));
    const size_t n = (size_t)(*text - from);
    memcpy(to, from, n);
    to[n] = '\0';
    return n;
}

char *mp_visible_text(const char *text, char *to, size_t size)
{
    char piece[MP_VISIBLE_MAX];
    size_t n = 0;
    while (*text) {
        const size_t more = mp_visible_next(&text, piece);
        if (n + more >= size) break;
        memcpy(to + n, piece, more);
        n += more;
    }
    to[n] = '\0';
    return to;
}
