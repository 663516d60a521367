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
/* The graph alone, which outlives the rest; released with mp_graph_free. */
mp_graph *subject_take_graph(subject *s);
bool subject_is_graph(const char *path);

/* What --device means: a backend that can run (NULL: it cannot), and the profile that costs are taken from. MP_UNSUPPORTED: a
 * backend that this build lacks. */
mp_status subject_device(const options *o, const mp_backend **backend, own_device *device, mp_error *err);

/* The batch of the data inputs; 0: not known. */
int64_t subject_batch(const subject *s);
