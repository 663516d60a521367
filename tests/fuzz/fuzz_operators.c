/* fuzz_operators.c - operators with arbitrary attributes, shapes and types. They run through the rules of the operator table
 * and, if accepted, through the CPU's kernels, forward and backward. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/operator_mutate.h"
#include "tests/fuzz/operator_run.h"

/* libFuzzer's mutation of bytes, if linked. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most) __attribute__((weak));

/* Returns whether all results must be finite: an unchanged case of the corpus with ordinary numbers, except for these
 * operators. */
static bool has_to_be_finite(const operator_case *c)
{
    static const char *const others[] = {"Acosh", "Mod", "IsInf", "IsNaN"};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strcmp(c->kind, others[k])) return false;
    return !(c->fill & OPERATOR_MUTATED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const faults[] = {
        [OPERATOR_OVERWRITES] = "it wrote where nothing is for it to write",
        [OPERATOR_NOT_FINITE] = "not all of what it made is a finite number",
        [OPERATOR_NO_REASON] = "the reason does not name the operator",
    };
    operator_case c;
    char text[OPERATOR_TEXT], line[4 * OPERATOR_TEXT];
    if (!operator_case_read((const char *)data, n, &c)) return 0;
    operator_case_write(&c, line);
    const operator_verdict verdict = operator_run(&c, has_to_be_finite(&c), text);
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%d  %s  %s\n", verdict, line, text);
    if (verdict < OPERATOR_OVERWRITES) return 0;
    fprintf(stderr, "%s\n  %s: %s\n", line, faults[verdict], text);
    abort();
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    operator_case c;
    char line[4 * OPERATOR_TEXT];
    if (!operator_case_read((const char *)data, n, &c)) return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, n, most) : 0;
    operator_mutate(&c, seed);
    operator_case_write(&c, line);
    n = strlen(line) < most ? strlen(line) : most;
    memcpy(data, line, n);
    return n;
}
