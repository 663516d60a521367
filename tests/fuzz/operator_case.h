/* operator_case.h - one operator as a line of text, for fuzzing. The text is untrusted.
 *
 *     Conv 11 | float32[1,2,5,5] float32[4,1,3,3] - | group=2 pads=[1,1,1,1] | 1 3 0
 *
 * Fields: kind (with its domain: com.microsoft:Gelu) and version; inputs; attributes; numbers. Inputs: "-" is omitted, "@0"
 * repeats the tensor of input 0, and "={...}" states the values of a constant. Numbers: outputs (negative: the first is
 * omitted), a bit for each requested gradient of an input, and `fill` for inputs without stated values (operator_run.h).
 */
#pragma once

#include <stddef.h>

#include "estimator/model/model.h"

enum { OPERATOR_INPUTS = 12, OPERATOR_OUTPUTS = 4, OPERATOR_ATTRIBUTES = 12, OPERATOR_LIST = 64, OPERATOR_TEXT = 512 };

typedef struct operator_input {
    bool is_there;
    int same_as; /* -1: a separate tensor */
    mp_dtype dtype;
    int rank;
    int64_t dims[OPERATOR_LIST];
    int n_values; /* -1: no stated values */
    double values[OPERATOR_LIST];
} operator_input;

typedef struct operator_attribute {
    char name[40], text[96];
    mp_attribute_kind kind; /* INT, FLOAT, TEXT, INTS, FLOATS */
    int n;
    int64_t ints[OPERATOR_LIST];
    double floats[OPERATOR_LIST];
} operator_attribute;

typedef struct operator_case {
    char kind[48], domain[24];
    int version, n_in, n_attributes, n_out;
    operator_input in[OPERATOR_INPUTS];
    operator_attribute attributes[OPERATOR_ATTRIBUTES];
    unsigned wanted, fill;
} operator_case;

/* Parses a case, which need not end with 0. False: invalid text. */
bool operator_case_read(const char *text, size_t n, operator_case *c);
/* Writes the case as a line, for reports; longer lines are truncated. */
void operator_case_write(const operator_case *c, char line[4 * OPERATOR_TEXT]);
/* Makes an inferred model of this operator. Other results than MP_OK are refusals, with the reason. */
mp_status operator_case_model(const operator_case *c, mp_model **model, mp_error *err);
