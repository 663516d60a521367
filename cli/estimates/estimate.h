/* estimate.h - the sections of the answer of `memplan estimate`. Functions that return JSON return a new reference, or NULL if
 * out of memory. */
#pragma once

#include <jansson.h>

#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/summary.h"
#include "memplan/update_effect.h"

/* ---- memory savings: other options of the same model, each built and measured with everything kept ---- */

enum { SAVINGS_MAX = 7 };

typedef struct saving {
    char what[64];      /* the option, as the user would write it: "--optimizer sgd" */
    int64_t peak_bytes; /* peak bytes of keep-all with this option */
    int64_t ticks; /* ticks of one step with this option; -1: not comparable, because the step computes different results */
} saving;

typedef struct savings {
    int64_t peak_bytes, ticks; /* peak bytes and ticks of keep-all with the user's options */
    size_t n;
    saving rows[SAVINGS_MAX];
} savings;

/* Tries options that were not given: updates within backward, SGD without state, bf16, autocast, half the batch, LoRA adapters
 * on the products of attention, and recomputed segments between evenly spread checkpoints. Skips options that do not apply to
 * the model or device. MP_NOMEM, or a failure to build the graph. */
mp_status savings_find(const options *o, const subject *s, int64_t peak_bytes, savings *out, mp_error *err);
/* Prints the largest savings, at most `most` lines. */
void report_savings(const savings *s, size_t most);
json_t *savings_json(const savings *s);

/* ---- --fuse: the memory with optimizer updates after, within or before the other nodes ---- */

typedef struct update_comparison {
    bool is_possible[MP_N_FUSES]; /* per mode of --fuse; false for `backward` if gradients are clipped by their global norm */
    mp_update_effect effects[MP_N_FUSES];
    int64_t cache_bytes;
} update_comparison;

/* Builds the model's training graph once per mode of --fuse, and measures each with everything kept. Errors as subject_load. */
mp_status compare_updates(const options *o, update_comparison *out, mp_error *err);
void print_update_comparison(const update_comparison *c);
json_t *update_comparison_json(const update_comparison *c);

/* ---- one row per operator: bytes kept, time and inputs. `sort` as for report_modules; NULL: in network order ---- */

/* Prints the table of --per-op. MP_NOMEM. */
mp_status report_operators(const mp_graph *graph, const mp_summary *summary, const char *sort, mp_error *err);
json_t *operators_json(const mp_graph *graph, const mp_summary *summary, const char *sort);
/* Writes the rows of --per-op as CSV to standard output: a header line, then exact integers and seconds. MP_NOMEM. */
mp_status operators_csv(const mp_graph *graph, const mp_summary *summary, const char *sort, mp_error *err);
/* Returns FLOPs as a JSON integer if they fit, otherwise as a real number. */
json_t *flops_json(double flops);
json_t *text_or_null(const char *text);

/* ---- roles of the tensors that no operator computes: data, trained, kept or constant, and the rule that decides ---- */

/* Prints these tensors by role and rule: their number, and the first names of each group. Of the constants it lists only
 * floating-point tensors that are not settings, because other tensors cannot be trained. */
void report_roles(const mp_model *model, const model_options *o);
/* Counts the elements of all parameters that the file trains, and of those that are not frozen. Parameters that the loss does
 * not depend on (of an auxiliary output) are included. */
void count_parameters(const mp_model *model, const model_options *o, int64_t *all, int64_t *trained);
json_t *roles_json(const mp_model *model, const model_options *o);

/* ---- synthetic inputs: the generated values of each input in a training without data files, and the operator that determines
 * them ---- */

/* Prints a row per input that an operator reads: shape, type, role, values, and the operator that determines the values.
 * MP_NOMEM. */
mp_status report_synthetic(const mp_model *model, mp_error *err);
json_t *synthetic_json(const mp_model *model);
