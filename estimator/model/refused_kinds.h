/* refused_kinds.h - counts unsupported operators by type, so that one error message can report all of them. */
#pragma once

#include "estimator/model/model.h"

enum {
    MP_REFUSED_KINDS_MAX = 64
}; /* maximum number of operator types that are counted separately; all further types share one count */

typedef struct mp_refused_kind {
    const char *domain, *kind, *node; /* node: name of the first unsupported operator of this type */
    int version, count;
} mp_refused_kind;

/* Counts of unsupported operators by type; a zeroed struct has none. The strings belong to the model. */
typedef struct mp_refused_kinds {
    mp_refused_kind kinds[MP_REFUSED_KINDS_MAX];
    int n_kinds, n_others;
} mp_refused_kinds;

/* Adds an unsupported operator to the counts. O(kinds). */
void mp_refused_kinds_add(mp_refused_kinds *refused, const mp_operator *op);

enum { MP_REFUSED_TEXT = 320 };
/* Writes "NonMaxSuppression (2), com.example.Odd (1)". Types that do not fit into the text are summarised as "and 7 others".
 * If the registry supports a type in another version, the text includes the version. Returns `text`. */
const char *mp_refused_kinds_text(const mp_refused_kinds *refused, char text[MP_REFUSED_TEXT]);
