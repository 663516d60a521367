/* distinct_names.c - numbers shortened names that would be printed alike. */
#include "formats/base/distinct_names.h"

#include <string.h>

#include "estimator/base/names.h"
#include "formats/base/text.h"

struct mp_distinct_names {
    mp_pool *pool;
    mp_names *shown; /* map from a printed text to the number of its name */
    mp_names *full;  /* map from a full name to its number */
    int n;
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
    mp_pool_free(names->pool);
    mp_free(names);
}

/* Stores `number` for a copy of the text. Returns false if memory is short. */
static bool store(mp_distinct_names *names, mp_names *in, const char *text, int number)
{
    const char *copy = mp_pool_text(names->pool, text, strlen(text));
    return copy && mp_names_set(in, copy, number);
}

const char *mp_distinct_name(mp_distinct_names *names, const char *name, const char *text, mp_name_shortener shorten,
                             const void *how)
{
    const char *shown = shorten(text, "", how);
    int number = names ? mp_names_find(names->full, name) : -1;
    if (!names) return shown;
    if (number < 0 && !store(names, names->full, name, number = names->n++)) return shown;
    for (int k = 2, owner; (owner = mp_names_find(names->shown, shown)) != number; k++) {
        if (owner < 0) return store(names, names->shown, shown, number), shown;
        /* `text` may be a result of mp_text, which many attempts would overwrite */
        if (k == 2 && !(text = mp_pool_text(names->pool, text, strlen(text)))) return shown;
        shown = shorten(text, mp_text("%d", k), how);
    }
    return shown;
}
