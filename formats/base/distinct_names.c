/* distinct_names.c - marks shortened names that would be printed alike. */
#include "formats/base/distinct_names.h"

#include <ctype.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/names.h"
#include "formats/base/text.h"

struct mp_distinct_names {
    mp_pool *pool;
    mp_names *shown; /* map from a printed text to the number of its name */
    mp_names *full;  /* map from a full name to its number */
    size_t n, capacity;
    const char **each; /* the full names, by their numbers */
};

mp_distinct_names *mp_distinct_names_new(void)
{
    MP_OWNED_BY(mp_distinct_names_free) mp_distinct_names *names = mp_alloc(1, sizeof *names);
    mp_distinct_names *made = NULL;
    if (!names) return NULL;
    names->pool = mp_pool_new();
    names->shown = mp_names_new();
    names->full = mp_names_new();
    if (!names->pool || !names->shown || !names->full) return NULL;
    made = names;
    names = NULL;
    return made;
}

void mp_distinct_names_free(mp_distinct_names *names)
{
    if (!names) return;
    mp_names_free(names->shown);
    mp_names_free(names->full);
    mp_free(names->each);
    mp_pool_free(names->pool);
    mp_free(names);
}

/* Returns the number of a full name, which is added if it is new; -1: out of memory. */
static int number_of(mp_distinct_names *names, const char *name)
{
    const int known = mp_names_find(names->full, name);
    const char *copy = known < 0 ? mp_pool_text(names->pool, name, strlen(name)) : NULL;
    if (!copy || !mp_grow(&names->each, &names->capacity, names->n + 1, sizeof *names->each)) return known;
    if (!mp_names_set(names->full, copy, (int)names->n)) return -1;
    names->each[names->n] = copy;
    return (int)names->n++;
}

/* Returns the word of `name` with the first character that differs from `other`: "2" for "block.2.conv" beside "block.1.conv".
 * Returns "" if the word is empty or long. */
static const char *different_word(const char *name, const char *other)
{
    enum { LONGEST = 12 };
    size_t from = 0, to;
    while (name[from] && name[from] == other[from]) from++;
    for (to = from; isalnum((unsigned char)name[to]);) to++;
    while (to > from && from && isalnum((unsigned char)name[from - 1])) from--;
    return to - from <= LONGEST ? mp_text("%.*s", (int)(to - from), name + from) : "";
}

const char *mp_distinct_name(mp_distinct_names *names, const char *name, const char *text, mp_name_shortener shorten,
                             const void *how)
{
    const char *shown = shorten(text, "", how), *copy;
    const int number = names ? number_of(names, name) : -1;
    if (number < 0) return shown;
    for (int k = 1, owner; (owner = mp_names_find(names->shown, shown)) != number; k++) {
        if (owner < 0) {
            copy = mp_pool_text(names->pool, shown, strlen(shown));
            if (copy) mp_names_set(names->shown, copy, number);
            return shown;
        }
        /* `text` may be a result of mp_text, which many attempts would overwrite */
        if (k == 1 && !(text = mp_pool_text(names->pool, text, strlen(text)))) return shown;
        const char *word = k == 1 ? different_word(name, names->each[owner]) : mp_text("(%d)", k);
        shown = *word ? shorten(text, word, how) : shown;
    }
    return shown;
}
