/* short_name.c - what an exporter repeats in every name is left out. */
#include "formats/base/short_name.h"

#include <string.h>

#include "estimator/base/module_name.h"

char *mp_short_name(const char *name, char *text, size_t room)
{
    static const char first_output[] = "_output_0";
    const size_t suffix = sizeof first_output - 1;
    size_t n = 0;
    text[0] = '\0';
    while (*name && n + 1 < room) {
        size_t blanks = strspn(name, " ");
        if (blanks > room - 1 - n) blanks = room - 1 - n;
        memcpy(text + n, name, blanks);
        text[n += blanks] = '\0';
        name += blanks;
        size_t word = strcspn(name, " ");
        const size_t end = word;
        if (word > suffix && !memcmp(name + word - suffix, first_output, suffix)) word -= suffix;
        mp_module_text(name, word, text + n, room - n);
        n += strlen(text + n);
        name += end;
    }
    return text;
}
