/* rule_case.h - runs one operator, written as text, through the registry: for tests of shape rules, FLOPs and extras.
 *
 * Inputs are separated by blanks: "float32[1,3,8,8] - int64[2]={4,-1}" is a tensor, an omitted one, and one with a known value.
 * Attributes similarly: "group=2 strides=[2,2] alpha=0.5 scales=[1.0,2.0] auto_pad=VALID". Outputs: "float32[1,8] - int64[]". A
 * kind may have a domain: "com.microsoft:FusedMatMul". Each failure fails the test and shows the case. */
#pragma once

#include "estimator/model/ops.h"

typedef struct rule_case {
    const char *kind;
    int version;
    const char *inputs, *attributes;
    const char *outputs; /* the expected outputs; "!text": a refusal that names the operator and contains the text */
} rule_case;

/* Infers the operator of each case and compares the outputs. */
void rule_check(const rule_case *cases, size_t n);

/* Infers the operator with `n_outputs` outputs into a new model; it must succeed. -n: n outputs, the first omitted. Release
 * with mp_model_free. */
mp_model *rule_model(const rule_case *a_case, int n_outputs);

/* Return the operator's FLOPs, and compare its extras as text: "mean 16, rstd 16"; "" for none. */
double rule_flops(const char *kind, int version, const char *inputs, const char *attributes);
void rule_check_extras(const char *kind, int version, const char *inputs, const char *attributes, mp_rules rules,
                       const char *expected);
