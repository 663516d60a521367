/* distinct_names.h - shortened names of one table or picture. Two different names are never printed alike. */
#pragma once

#include "memplan/memory.h"

typedef struct mp_distinct_names mp_distinct_names;

mp_distinct_names *mp_distinct_names_new(void);        /* creates an empty collection; NULL: out of memory */
void mp_distinct_names_free(mp_distinct_names *names); /* NULL is allowed */
MP_OWNER(mp_distinct_names_free, mp_distinct_names)

/* Shortens a text. If `mark` is not "", the result contains it, in place of the omitted middle. */
typedef const char *(*mp_name_shortener)(const char *text, const char *mark, const void *how);

/* Returns `text`, shortened by `shorten`, for the thing whose full name is `name`. If another name of the collection has got
 * this result, the result contains the first word that differs: "layer...2...conv" for "layer.2.attention.conv". If these
 * words are equal, too, it contains a number: "layer...(2)...conv". If memory is short, or `names` is NULL, it is not marked.
 * The result is valid as long as a result of mp_text (text.h). O(names with this result). */
const char *mp_distinct_name(mp_distinct_names *names, const char *name, const char *text, mp_name_shortener shorten,
                             const void *how);
