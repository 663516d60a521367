/* subject.h - what a command works on: a model that becomes a training graph, or a training graph from a file. */
#pragma once

#include <jansson.h>

#include "cli/messages/quantities.h"
#include "cli/options/options.h"
#include "cli/options/own_device.h"
#include "estimator/model/model.h"
#include "estimator/parallel/split.h"
#include "estimator/simplify/inference_form.h"
#include "estimator/simplify/sequences.h"
#include "executor/run/program.h"
#include "memplan/architecture.h"
#include "memplan/graph.h"
#include "memplan/plan.h"
#include "memplan/problem.h"
#include "memplan/ranks/exchange.h"
#include "memplan/ranks/pipeline.h"
#include "memplan/simplify.h"
#include "memplan/timeline.h"
#include "memplan/training.h"

/* Graphs with more nodes take seconds to build, so that no other options are tried on them. */
enum { SUBJECT_TRIED_NODES = 20000 };

typedef struct subject {
    const char *path;
    char title[256];  /* "resnet50, batch 32" */
    const char *file; /* of the model; NULL: a network known by name, or a graph */
    mp_model *model;  /* NULL: the graph came from a file */
    mp_graph *graph;
    mp_problem *problem; /* of the graph */
    mp_plan *plan;       /* loaded by subject_load_with_plan; else NULL */
    mp_program *program; /* owns the graph if --device is a backend that can run it; else NULL */
    mp_simplify_report simplified;
    mp_attention_report attention;
    mp_sequence_report sequences;
    mp_inference_form inference;              /* counted in the file before simplification */
    json_t *options;                          /* the graph's options */
    int64_t tier_bytes[MP_MAX_TIERS];         /* what --offload permits, as in mp_request */
    char *folder;                             /* of the tier "disk"; NULL: none */
    mp_ranks ranks;                           /* as --mesh says; of one device without it */
    mp_rank_traffic traffic;                  /* of keep-all */
    mp_split split;                           /* of the model over mesh.tp */
    mp_error not_run;                         /* why no program runs the split model; no failure: one does, or is not needed */
    mp_rank rank;                             /* of a pipeline: `graph` is its; n_ranks of its shape is 0 without one */
    int n_blocks, *begins;                    /* of a pipeline: blocks of the network, and where its stages begin */
    double bytes_per_second[MP_MAX_CHANNELS]; /* of copies, where --link states a rate; else 0, as in mp_execution_options */
} subject;

/* Reads the file: a name that ends in .json, .dot or .gv is a training graph, anything else a model (subject_model), which is
 * simplified, given a loss and turned into its training graph as the options say; an inference graph gets a warning.
 * MP_INVALID: options about models for a graph file. Release with subject_free in any case. */
mp_status subject_load(const char *path, const options *o, subject *out, mp_error *err);
/* As subject_load, for a model with a plan: options that the command line leaves open are taken from the plan.
 * plan_path NULL: no plan. */
mp_status subject_load_as_planned(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
/* As subject_load_as_planned, with the plan as out->plan: checked, because a picture of a wrong plan would mislead.
 * MP_REFUTED: it does not hold; other errors as mp_plan_read. */
mp_status subject_load_with_plan(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
void subject_free(subject *s);
/* Takes the graph out of the subject; it may outlive it, and is released with mp_graph_free. */
mp_graph *subject_take_graph(subject *s);
/* Reads a model: an ONNX file, or where there is no such file the network of this name, of which --dim sets sizes. MP_INVALID:
 * neither, with the nearest name; options about files for a network without one. */
mp_status subject_model(const char *path, const model_options *o, mp_model **out, mp_error *err);
/* Builds the network of this name, whether or not there is a file. As subject_model. */
mp_status subject_named(const char *name, const model_options *o, mp_model **out, mp_error *err);
/* Returns the network that is known by this name; NULL if there is none, or a file of that name. */
const mp_architecture *subject_architecture(const char *path);
/* True if the file is a training graph: by its name, or on standard input by its first bytes. */
bool subject_is_graph(const char *path);

/* Finds the meaning of --device: a backend that can run (NULL: there is none), and the profile for costs.
 * MP_UNSUPPORTED: a backend that this build lacks. */
mp_status subject_device(const model_options *o, const mp_backend **backend, own_device *device, mp_error *err);

/* Extends the subject's graph by what --offload and --link ask for, and sets tier_bytes, folder and bytes_per_second; without
 * them does nothing. Called by subject_load. MP_INVALID: no such folder or link, or nothing that could be copied; as
 * mp_graph_offload. MP_UNSUPPORTED: the command cannot copy. */
mp_status subject_offload(const options *o, const own_device *device, subject *s, mp_error *err);
/* Reads --offload and --link where only the host's memory will do; without them *has_host is false. *bytes: 0: no limit.
 * MP_INVALID: as subject_offload, or another place. */
mp_status subject_host(const options *o, const own_device *device, bool *has_host, mp_link *link, int64_t *bytes,
                       mp_error *err);

/* Reads a network: a name, or a .json file. As mp_network_read and mp_network_json_read. */
mp_status subject_network(const char *name, mp_interconnect *out, mp_error *err);
/* Reads --mesh, --network and --bucket into s->ranks; without them it is a mesh of one device. MP_INVALID: as
 * mp_mesh_read and mp_network_read, or one of the others without --mesh. */
mp_status subject_mesh(const options *o, const own_device *device, subject *s, mp_error *err);

/* ---- pipelines: --mesh with pp ---- */

/* Gives the pipeline that the options ask for; n_ranks 0: none. MP_INVALID: as mp_mesh_read and mp_schedule_check; options of
 * pipelines without one; micro-batches that do not divide the batch. */
mp_status subject_pipeline(const options *o, mp_pipeline_shape *out, mp_error *err);
/* Cuts the subject's whole graph, and leaves that of the rank that --rank names. As mp_pipeline_new; MP_INVALID: no --rank. */
mp_status subject_cut(const options *o, const mp_pipeline_shape *shape, const mp_device *device, subject *s, mp_error *err);
/* Sets what other micro-batches keep on the subject's rank while each of its chunks runs; NULL: as much as in keep-all. Graph,
 * problem and options then say so. For a subject without a pipeline it does nothing. */
mp_status subject_hold(subject *s, const int64_t *bytes, mp_error *err);
/* Sets what --held says; without it as in keep-all. MP_INVALID: that is no list of bytes, one for each chunk. */
mp_status subject_hold_asked(const options *o, subject *s, mp_error *err);
/* Checks that what is held is enough for these steps; nothing without a pipeline. As mp_rank_check. */
mp_status subject_check_held(const subject *s, const mp_step *steps, size_t n, mp_error *err);

/* Prints of how many ranks the subject is one, and what it sends, if there are several. */
void subject_print_ranks(const subject *s);
/* Returns the same as JSON, a new reference; NULL if memory is short. */
json_t *subject_ranks_json(const subject *s);

/* Returns the rules that the graph was built under: those in its options, else the executor's. */
mp_rules subject_rules(const subject *s);
/* Returns the program that a verdict is about, ", in PyTorch" or ", in memplan"; "" for a graph of another program. */
const char *subject_program(const subject *s);

/* Returns the batch of the data inputs; 0 if it is not known. */
int64_t subject_batch(const subject *s);

/* Finds the storages that a user's comma-separated list of tensors names: by tensor or storage name, also if
 * simplification replaced it (which is said on standard error). MP_INVALID: a name that does not exist (with the
 * nearest that does), or is no activation of the forward pass. *list is released with mp_free. */
mp_status subject_checkpoints(const subject *s, const char *names, int **list, size_t *n, mp_error *err);

/* ---- the peak of keep-all under the other rules: PyTorch's where memplan's own were asked for, and the reverse ---- */

typedef struct other_rules {
    bool is_known; /* false for a graph file, which has no model, and for graphs of very many nodes */
    mp_rules rules;
    int64_t peak_bytes;
} other_rules;

/* Builds the model's training graph once more under the rules that the options have not chosen: PyTorch's with
 * attention kept as its own operator, without measured costs. Not known if that is refused; MP_NOMEM. */
mp_status other_rules_of(const options *o, const subject *s, other_rules *out, mp_error *err);
/* As other_rules_of, for the model at this path and batch; batch 0: that of the options. */
mp_status other_rules_at(const options *o, const char *path, int64_t batch, other_rules *out, mp_error *err);
/* Returns the options under the other rules: nothing is measured, nothing copied, and no warning printed twice. */
options other_options(const options *o);
/* Returns ", 7.62 GiB in memplan" as mp_text does; "" if the peak is not known, or is as large. */
const char *other_rules_text(const other_rules *other, int64_t peak_bytes);
/* Return "in PyTorch" or "in memplan", and the option that shows more: "--rules pytorch". */
const char *other_rules_name(const other_rules *other);
const char *other_rules_option(const other_rules *other);
/* Returns {"rules": "pytorch", "peak_bytes": N} as a new reference, null if it is not known. NULL if memory is short. */
json_t *other_rules_json(const other_rules *other);

/* ---- the loss options in the form that the library takes ---- */

typedef struct loss_options {
    mp_loss_options wanted; /* points into the fields below */
    int64_t ignore_index;
    double *class_weights, *pos_weight;
} loss_options;

/* Reads the numbers, and the files of lists that are files. Release with loss_options_free in any case. MP_INVALID: no
 * numbers; MP_PARSE, MP_IO: a file; MP_NOMEM. */
mp_status loss_options_read(const model_options *o, loss_options *out, mp_error *err);
void loss_options_free(loss_options *l);

/* ---- warnings: how a file differs from the network in training, and how to export one that does not. Each is printed
 * once, as one sentence on standard error ---- */

/* Warns of an inference form. `keeps`: --keep-inference-norms was given. */
void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps);
/* Warns of weights that may be missing, counted twice or not trained (estimator/model/doubts.h), a line for each kind. */
void warn_of_weights(const char *path, const mp_model *model);
/* Under PyTorch's rules: names operators that PyTorch may run otherwise than the file says. `attention`: of a file with
 * attention, which may lack dropout; NULL: of another. MP_NOMEM. */
mp_status warn_of_guesses(const char *path, const mp_model *model, const mp_inference_form *attention, mp_error *err);
