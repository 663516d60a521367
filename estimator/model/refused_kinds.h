/* refused_kinds.h - operators that cannot be taken, counted by kind, for one sentence about all of them. */
#pragma once

#include "estimator/model/model.h"

enum { MP_REFUSED_KINDS_MAX = 64 }; /* kinds that are told apart; further ones are counted together */

typedef struct mp_refused_kind {
    const char *domain, *kind, *node; /* node: the name of the first one */
    int version, count;
} mp_refused_kind;

/* Operators that were refused, by kind; all zero: none. The texts belong to the model. */
typedef struct mp_refused_kinds {
    mp_refused_kind kinds[MP_REFUSED_KINDS_MAX];
    int n_kinds, n_others;
} mp_refused_kinds;

/* Counts an operator. O(kinds). */
void mp_refused_kinds_add(mp_refused_kinds *refused, const mp_operator *op);

enum { MP_REFUSED_TEXT = 320 };
/* Writes "NonMaxSuppression (2), com.example.Odd (1)"; kinds that do not fit are counted: "and 7 others". A kind with a
 * row for another version is written with its version. Returns `text`. */
const char *mp_refused_kinds_text(const mp_refused_kinds *refused, char text[MP_REFUSED_TEXT]);
