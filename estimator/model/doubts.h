/* doubts.h - weights about which a file is silent, counted where it is read, so that commands can warn. */
#pragma once

#include <stdint.h>

#include "memplan/error.h"

struct mp_model;

typedef enum mp_doubt_kind {
    MP_DOUBT_UNSIGNED, /* computed by the exporter, from weights or buffers: the file lost the signature that tells them apart
                        */
    MP_DOUBT_SHARED,   /* read by several operators in such a file: equal tensors may have been merged */
    MP_DOUBT_MISSING,  /* parameters of the exported program that the file does not have */
    MP_DOUBT_COPIED,   /* copies of a parameter that the file also has: it is counted twice */
    MP_DOUBT_ADOPTED,  /* written by operators as constants, and trained: the initializers have fewer weights */
    MP_DOUBT_CONSTANT, /* read as weights, and written by operators as constants: not trained */
    MP_DOUBT_INTEGER,  /* read as weights, and stored as integers: not trained */
    MP_N_DOUBTS
} mp_doubt_kind;

typedef struct mp_doubt {
    int n;
    int64_t elements;
    const char *names; /* the first three, "a, b, c, ..."; NULL: n is 0 */
} mp_doubt;

/* Counts one more tensor of the kind. MP_NOMEM. */
mp_status mp_model_doubt(struct mp_model *model, mp_doubt_kind kind, const char *name, int64_t elements, mp_error *err);
