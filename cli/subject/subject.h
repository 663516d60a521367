/* subject.h - what a command is about: a model that becomes a training graph, or a training graph from a file. */
#pragma once

#include <jansson.h>

#include "cli/messages/quantities.h"
#include "cli/options/options.h"
#include "cli/options/own_device.h"
#include "estimator/model/model.h"
#include "estimator/simplify/inference_form.h"
#include "estimator/simplify/sequences.h"
#include "executor/run/program.h"
#include "memplan/graph.h"
#include "memplan/plan.h"
#include "memplan/problem.h"
#include "memplan/simplify.h"
#include "memplan/timeline.h"
#include "memplan/training.h"

/* Where a graph is so large that building it again takes seconds, no other options are tried beside those asked for. */
enum { SUBJECT_TRIED_NODES = 20000 };

typedef struct subject {
    const char *path;
    char title[256]; /* "resnet50, batch 32" */
    mp_model *model; /* NULL: the graph came from a file */
    mp_graph *graph;
    mp_problem *problem; /* of the graph */
    mp_plan *plan;       /* of subject_load_with_plan; else NULL */
    mp_program *program; /* the graph's owner, where --device is a backend that can run it; else NULL */
    mp_simplify_report simplified;
    mp_attention_report attention;
    mp_sequence_report sequences;
    mp_inference_form inference; /* as the file is, before simplification */
    json_t *options;             /* of the graph */
} subject;

/* Reads the file: a name that ends in .json, .dot or .gv is a training graph, anything else an ONNX model, which is simplified,
 * given a loss and turned into its training graph as the options say; a file that is an inference graph is said to be one.
 * MP_INVALID: options about models for a graph file. Release with subject_free in any case. */
mp_status subject_load(const char *path, const options *o, subject *out, mp_error *err);
/* The same for a model that a plan was made for: what the command line leaves open is as the plan says. plan_path NULL: as
 * above. */
mp_status subject_load_as_planned(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
/* The same, and the plan itself as out->plan: checked, because a picture or figure of a wrong plan would mislead. MP_REFUTED:
 * it does not hold; the rest as mp_plan_read. */
mp_status subject_load_with_plan(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
void subject_free(subject *s);
/* Takes the graph out, which outlives the rest; released with mp_graph_free. */
mp_graph *subject_take_graph(subject *s);
/* True if the file is a training graph by its name, or standard input by what it looks like. */
bool subject_is_graph(const char *path);

/* Finds what --device means: a backend that can run (NULL: it cannot), and the profile that costs are taken from.
 * MP_UNSUPPORTED: a backend that this build lacks. */
mp_status subject_device(const model_options *o, const mp_backend **backend, own_device *device, mp_error *err);

/* Returns the batch of the data inputs; 0 if it is not known. */
int64_t subject_batch(const subject *s);

/* Finds the storages that a user's comma-separated list of tensors names, by tensor or storage name and through what
 * simplification did to them (which is said on standard error). MP_INVALID: a name that is not there (with the nearest that
 * is), or one that is no activation of the forward pass. *list is released with mp_free. */
mp_status subject_checkpoints(const subject *s, const char *names, int **list, size_t *n, mp_error *err);

/* ---- the peak with everything kept as the other rules have it: PyTorch, where memplan's own rules were asked for ---- */

typedef struct other_rules {
    bool is_known; /* a graph file has no model to ask, and one of very many nodes is not built twice */
    mp_rules rules;
    int64_t peak_bytes;
} other_rules;

/* Builds the model's training graph once more, under the rules that the options have not chosen; PyTorch's with attention as
 * its own operator keeps it, and without measured costs. Not known where that is refused; MP_NOMEM. */
mp_status other_rules_of(const options *o, const subject *s, other_rules *out, mp_error *err);
/* Return "in PyTorch" or "in memplan", and the option that says more of it: "--rules pytorch". */
const char *other_rules_name(const other_rules *other);
const char *other_rules_option(const other_rules *other);
/* Returns {"rules": "pytorch", "peak_bytes": N}, null where it is not known; a new reference. NULL: memory is short. */
json_t *other_rules_json(const other_rules *other);

/* ---- what the options say of the loss, as the library takes it ---- */

typedef struct loss_options {
    mp_loss_options wanted; /* points into what follows */
    int64_t ignore_index;
    double *class_weights, *pos_weight;
} loss_options;

/* Reads numbers and, for lists that are files, the files. Release with loss_options_free in any case. MP_INVALID: no numbers;
 * MP_PARSE, MP_IO: a file; MP_NOMEM. */
mp_status loss_options_read(const model_options *o, loss_options *out, mp_error *err);
void loss_options_free(loss_options *l);

/* ---- warnings: what a file does not have as training runs it, and how to export one that does. Each is one sentence on
 * standard error, the first time that there is something to say ---- */

/* `keeps`: --keep-inference-norms was given. */
void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps);
/* Under PyTorch's rules: names operators of which the file does not say how PyTorch runs them. lacks_dropout: a transformer
 * without any. MP_NOMEM. */
mp_status warn_of_guesses(const char *path, const mp_model *model, bool lacks_dropout, mp_error *err);
