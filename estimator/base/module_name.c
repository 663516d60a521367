/* module_name.c - finds the modules in a name. A module is a prefix of the name that ends at a slash. */
#include "estimator/base/module_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

int mp_module_depth(const char *name)
{
    int n = 0;
    for (const char *at = name; *at; at++) n += *at == '/' && at != name;
    return n;
}

size_t mp_module_length(const char *name, int depth)
{
    size_t end = 0;
    for (const char *at = name; *at && depth > 0; at++)
        if (*at == '/' && at != name) {
            end = (size_t)(at - name);
            depth--;
        }
    return end;
}

/* Appends as many bytes of a piece of text as fit, without splitting a UTF-8 character. */
static size_t append(char *text, size_t at, size_t size, const char *piece, size_t n)
{
    if (n > size - 1 - at) {
        n = size - 1 - at;
        while (n > 0 && ((unsigned char)piece[n] & 0xC0) == 0x80) n--;
    }
    memcpy(text + at, piece, n);
    text[at + n] = '\0';
    return at + n;
}

char *mp_module_text(const char *name, size_t length, char *text, size_t size)
{
    const char *end = name + length, *previous = NULL;
    size_t previous_length = 0, n = 0;
    text[0] = '\0';
    for (const char *at = name + (length > 0 && *name == '/'); at < end;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        size_t component = (size_t)((slash ? slash : end) - at);
        bool repeats =
            previous && component > previous_length && at[previous_length] == '.' && !strncmp(at, previous, previous_length);
        if (previous && !repeats) n = append(text, n, size, ".", 1);
        n = repeats ? append(text, n, size, at + previous_length, component - previous_length)
                    : append(text, n, size, at, component);
        previous = at;
        previous_length = component;
        at += component + 1;
    }
    return text;
}

const char *mp_module_leaf(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash && slash[1] ? slash + 1 : name;
}

/* Parses the decimal number at *at, and moves *at behind the number. */
static unsigned long number_at(const char *name, size_t n, size_t *at)
{
    unsigned long value = 0;
    for (; *at < n && isdigit((unsigned char)name[*at]); ++*at) value = 10 * value + (unsigned long)(name[*at] - '0');
    return value;
}

bool mp_module_is_next(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0, j = 0;
    bool differs = false;
    while (i < n && j < m) {
        if (isdigit((unsigned char)a[i]) && isdigit((unsigned char)b[j])) {
            const unsigned long before = number_at(a, n, &i), after = number_at(b, m, &j);
            if (after != before && after != before + 1) return false;
            differs |= after != before;
        } else if (a[i++] != b[j++]) {
            return false;
        }
    }
    return i == n && j == m && differs;
}
