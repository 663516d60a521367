/* attributes.h - the attributes of an operator: named numbers, texts, lists and small tensors. */
#pragma once

#include "estimator/model/value.h"

struct mp_operator;

typedef enum mp_attribute_kind {
    MP_ATTRIBUTE_INT,
    MP_ATTRIBUTE_FLOAT,
    MP_ATTRIBUTE_TEXT, /* a list of texts is one, with commas between */
    MP_ATTRIBUTE_INTS,
    MP_ATTRIBUTE_FLOATS,
    MP_ATTRIBUTE_TENSOR, /* dtype, rank, dims, and value if small and numeric */
    MP_ATTRIBUTE_OTHER   /* present, of a kind no rule reads: graphs, sparse tensors, types */
} mp_attribute_kind;

typedef struct mp_attribute {
    const char *name;
    mp_attribute_kind kind;
    int64_t i;        /* INT */
    double f;         /* FLOAT */
    const char *text; /* TEXT */
    size_t n;         /* INTS, FLOATS */
    int64_t *ints;
    double *floats;
    mp_dtype dtype; /* TENSOR */
    int rank;
    int64_t *dims;
    mp_value *value; /* TENSOR: NULL when too large or absent */
} mp_attribute;

/* A copy of from[0..n) that points to nothing of the original; *out is untouched on failure. MP_NOMEM. */
mp_status mp_attributes_copy(mp_model *model, const mp_attribute *from, size_t n, mp_attribute **out, mp_error *err);

/* Attributes, with the default for one that is absent or of another kind. */
const mp_attribute *mp_operator_attribute(const struct mp_operator *op, const char *name); /* NULL: absent */
int64_t mp_operator_int(const struct mp_operator *op, const char *name, int64_t otherwise);
double mp_operator_float(const struct mp_operator *op, const char *name, double otherwise);
const char *mp_operator_text(const struct mp_operator *op, const char *name, const char *otherwise);
/* *n elements, or NULL and 0 when absent. */
const int64_t *mp_operator_ints(const struct mp_operator *op, const char *name, size_t *n);
