/* doubts.h - counts weights for which an ONNX file does not state whether they are trained. Commands use the counts for
 * warnings. */
#pragma once

#include <stdint.h>

#include "memplan/error.h"

struct mp_model;

typedef enum mp_doubt_kind {
    MP_DOUBT_UNSIGNED, /* the exporter computed the tensor from weights or buffers; the file lacks the signature that would
                          distinguish the two */
    MP_DOUBT_SHARED,   /* several operators read the tensor, and the file has no signature: the exporter may have merged equal
                          tensors */
    MP_DOUBT_FOLDED,   /* the tensor has a name given by PyTorch's older exporter and is not read as a weight: constant folding
                          may have computed it */
    MP_DOUBT_RESIZED,  /* the exporter computed the tensor from parameters, which may have other numbers of elements */
    MP_DOUBT_MISSING,  /* parameters of the exported program that the file does not contain */
    MP_DOUBT_COPIED,   /* copies of a parameter that the file also contains; the parameter counts twice */
    MP_DOUBT_ADOPTED,  /* stored as Constant operators but trained, because fewer weights are stored as initializers */
    MP_DOUBT_CONSTANT, /* read as weights but stored as Constant operators, so they are not trained */
    MP_DOUBT_INTEGER,  /* read as weights but stored as integers, so they are not trained */
    MP_DOUBT_MERGED,   /* calls of the program that the exporter has merged with equal calls */
    MP_N_DOUBTS
} mp_doubt_kind;

typedef struct mp_doubt {
    int n;
    int64_t elements;
    const char *names; /* names of the first three tensors of this kind of doubt, "a, b, c, ..."; NULL: there are none */
} mp_doubt;

/* Adds a tensor and its number of elements to the count of this kind of doubt. MP_NOMEM. */
mp_status mp_model_doubt(struct mp_model *model, mp_doubt_kind kind, const char *name, int64_t elements, mp_error *err);
