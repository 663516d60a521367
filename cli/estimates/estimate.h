/* estimate.h - parts of the answer of `memplan estimate`. JSON is a new reference; NULL if memory is short. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/summary.h"
#include "memplan/update_effect.h"

/* ---- what would save memory: other options of the same model, each built and measured with everything kept ---- */

enum { SAVINGS_MAX = 7 };

typedef struct saving {
    char what[64];      /* "--optimizer sgd" */
    int64_t peak_bytes; /* the peak with this option */
    int64_t ticks;      /* of one step with it; -1: not comparable, because the step computes something else */
} saving;

typedef struct savings {
    int64_t peak_bytes, ticks; /* without any saving */
    size_t n;
    saving rows[SAVINGS_MAX];
} savings;

/* Tries options that were not given: updates within backward, SGD without state, bf16, autocast, half the batch,
 * adapters beside the products of attention, and segments recomputed between evenly spread checkpoints. Leaves out what
 * the model or the device does not have. MP_NOMEM, or a failure of building the graph as asked. */
mp_status savings_find(const options *o, const subject *s, int64_t peak_bytes, savings *out, mp_error *err);
/* Prints the largest savings, at most so many. */
void report_savings(const savings *s, size_t most);
json_t *savings_json(const savings *s);

/* ---- --fuse: where updates can run ---- */

typedef struct update_comparison {
    bool is_possible[MP_N_FUSES]; /* false for backward with clipping by the global norm */
    mp_update_effect effects[MP_N_FUSES];
    int64_t cache_bytes;
} update_comparison;

/* Builds the training graph of the model once per mode. Errors as subject_load. */
mp_status compare_updates(const options *o, update_comparison *out, mp_error *err);
void print_update_comparison(const update_comparison *c);
json_t *update_comparison_json(const update_comparison *c);

/* ---- what each operator keeps, takes and reads; `sort` as for report_modules, NULL: in the order of the network ---- */

/* Prints the table of --per-op. MP_NOMEM. */
mp_status report_operators(const mp_graph *graph, const mp_summary *summary, const char *sort, mp_error *err);
json_t *operators_json(const mp_graph *graph, const mp_summary *summary, const char *sort);
/* Writes the rows of --per-op as CSV to standard output: a line of keys, then exact integers and seconds. MP_NOMEM. */
mp_status operators_csv(const mp_graph *graph, const mp_summary *summary, const char *sort, mp_error *err);
/* Returns FLOPs as a JSON integer if they fit one, else as a real number. */
json_t *flops_json(double flops);
json_t *text_or_null(const char *text);

/* ---- which tensors from outside are data, trained, kept or constant, and by which rule ---- */

/* Prints the tensors by role and rule, with their number and the first of each; of constants only floating-point ones
 * that are no settings, since others cannot be trained. */
void report_roles(const mp_model *model, const model_options *o);
/* Counts the elements of all parameters that the file trains, also where the loss does not depend on them (an auxiliary
 * output), and of those that are not frozen. */
void count_parameters(const mp_model *model, const model_options *o, int64_t *all, int64_t *trained);
json_t *roles_json(const mp_model *model, const model_options *o);

/* ---- what training without data files puts into each input, and why ---- */

/* Prints a row per input that an operator reads: shape, type, role, values, the operator that decides. MP_NOMEM. */
mp_status report_synthetic(const mp_model *model, mp_error *err);
json_t *synthetic_json(const mp_model *model);
