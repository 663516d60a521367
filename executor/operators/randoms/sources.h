/* sources.h - tensors from attributes, shapes and a few numbers: constants, ranges, windows. For every backend. */
#pragma once

#include "executor/kernel/body.h"

enum { MP_WINDOW_TERMS = 3 };

/* The rule that gives element k. */
typedef enum mp_source_form {
    MP_SOURCE_CONSTANT, /* ConstantOfShape: the number itself */
    MP_SOURCE_SIZE,     /* likewise */
    MP_SOURCE_VALUES,   /* Constant: that of a list in the program's memory */
    MP_SOURCE_SHAPE,    /* that of `dims` */
    MP_SOURCE_RANGE,    /* first + k * step */
    MP_SOURCE_EYE,      /* 1 on a diagonal of a matrix */
    MP_SOURCE_WINDOW    /* a sum of cosines */
} mp_source_form;

typedef struct mp_source {
    mp_source_form form;
    mp_array out;
    bool is_real; /* the number is `real`, else `whole` */
    double real;
    int64_t whole;
    const double *reals; /* of VALUES */
    const int64_t *wholes;
    int64_t dims[MP_ARRAY_RANK];
    mp_array first, step; /* of RANGE: one element each */
    int64_t columns, diagonal;
    double period, window[MP_WINDOW_TERMS]; /* factors of cos(0), cos(2 pi k / period), cos(4 pi k / period) */
} mp_source;

/* The operators that are sources. */
#define MP_SOURCES(X) \
    X("Constant")     \
    X("ConstantOfShape") X("Shape") X("Size") X("Range") X("EyeLike") X("HannWindow") X("HammingWindow") X("BlackmanWindow")

/* The description becomes the call's state. MP_UNSUPPORTED: a type or layout of the output, or a constant of another size;
 * MP_NOMEM. */
mp_status mp_source_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Returns the description with the arrays of this run. */
mp_source mp_source_of(const mp_call *call, const mp_operands *x);

MP_INLINE void mp_source_item(const mp_source *s, int64_t k)
{
    double real = s->real;
    int64_t whole = s->whole;
    if (s->form == MP_SOURCE_VALUES && s->is_real) real = s->reals[k];
    if (s->form == MP_SOURCE_VALUES && !s->is_real) whole = s->wholes[k];
    if (s->form == MP_SOURCE_SHAPE) whole = s->dims[k];
    if (s->form == MP_SOURCE_EYE) whole = k % s->columns - k / s->columns == s->diagonal;
    if (s->form == MP_SOURCE_RANGE && s->is_real)
        real = mp_load_real(s->first.data, s->first.dtype, 0) + (double)k * mp_load_real(s->step.data, s->step.dtype, 0);
    if (s->form == MP_SOURCE_RANGE && !s->is_real)
        whole = mp_load_whole(s->first.data, s->first.dtype, 0) + k * mp_load_whole(s->step.data, s->step.dtype, 0);
    if (s->form == MP_SOURCE_WINDOW) {
        for (int t = 0; t < MP_WINDOW_TERMS; t++)
            real += s->window[t] * (s->period > 0 ? cos(2 * 3.14159265358979323846 * t * (double)k / s->period) : 1);
        whole = (int64_t)real;
    }
    if (s->is_real)
        mp_store_real(s->out.data, s->out.dtype, k, real);
    else
        mp_store_whole(s->out.data, s->out.dtype, k, whole);
}
