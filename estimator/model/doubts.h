/* doubts.h - counts weights of an ONNX file about which the file does not say whether they are trained. Commands use the counts
 * for warnings. */
#pragma once

#include <stdint.h>

#include "memplan/error.h"

struct mp_model;

typedef enum mp_doubt_kind {
    MP_DOUBT_UNSIGNED, /* computed by the exporter from weights or buffers; the file has lost the signature that distinguishes
                          the two */
    MP_DOUBT_SHARED,   /* read by several operators in a file without signature: the exporter may have merged equal tensors */
    MP_DOUBT_FOLDED,   /* named by PyTorch's older exporter and not read as a weight: perhaps computed by constant folding */
    MP_DOUBT_MISSING,  /* parameters of the exported program that are missing in the file */
    MP_DOUBT_COPIED,   /* copies of a parameter that the file also contains, so the parameter counts twice */
    MP_DOUBT_ADOPTED,  /* stored as constant operators but trained, because the file has fewer weights as initializers */
    MP_DOUBT_CONSTANT, /* read as weights but stored as constant operators: not trained */
    MP_DOUBT_INTEGER,  /* read as weights but stored as integers: not trained */
    MP_N_DOUBTS
} mp_doubt_kind;

typedef struct mp_doubt {
    int n;
    int64_t elements;
    const char *names; /* names of the first three tensors, "a, b, c, ..."; NULL: there are none */
} mp_doubt;

/* Adds a tensor with its number of elements to the count of this kind. MP_NOMEM. */
mp_status mp_model_doubt(struct mp_model *model, mp_doubt_kind kind, const char *name, int64_t elements, mp_error *err);
