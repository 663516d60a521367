/* subject.h - the object that a command works on: a model converted to a training graph, or a training graph from a file. */
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

/* Larger graphs take seconds to build, so that no alternative options are tried on them. */
enum { SUBJECT_TRIED_NODES = 20000 };

typedef struct subject {
    const char *path;
    char title[256];   /* "resnet50, batch 32" */
    char heading[512]; /* of pictures: "resnet50, batch 32, dp=2, fp32, a100" */
    const char *file;  /* of the model; NULL: a network known by name, or a graph */
    mp_model *model;   /* NULL: the graph was read from a file */
    mp_graph *graph;
    mp_problem *problem; /* of the graph */
    mp_plan *plan;       /* loaded by subject_load_with_plan; otherwise NULL */
    mp_program *program; /* owns the graph if --device is a backend that can run it; otherwise NULL */
    mp_simplify_report simplified;
    mp_attention_report attention;
    mp_sequence_report sequences;
    mp_inference_form inference;      /* counted before simplification */
    json_t *options;                  /* the graph's options */
    int64_t tier_bytes[MP_MAX_TIERS]; /* limits from --offload, as in mp_request */
    char *folder;                     /* of the tier "disk"; NULL: none */
    mp_ranks ranks;                   /* from --mesh; without it a single device */
    mp_rank_traffic traffic;          /* of keep-all */
    mp_split split;                   /* of the model over mesh.tp */
    mp_error not_run;                 /* the reason why no program runs the split model; MP_OK: one does, or none is needed */
    mp_rank rank;                     /* the pipeline rank that `graph` belongs to; without a pipeline its shape.n_ranks is 0 */
    int n_blocks, *begins;            /* of a pipeline: number of blocks of the network, and the first block of each stage */
    double bytes_per_second[MP_MAX_CHANNELS]; /* of copies, if --link states a rate; otherwise 0, as in mp_execution_options */
} subject;

/* Loads the file. A name ending in .json, .dot or .gv is a training graph. Any other name is a model (subject_model). A model
 * is simplified, gets a loss, and is converted to its training graph according to the options. An inference graph causes a
 * warning. MP_INVALID: options for models with a graph file. Release with subject_free in any case. */
mp_status subject_load(const char *path, const options *o, subject *out, mp_error *err);
/* As subject_load, for a model with a plan: options that are not on the command line are adopted from the plan. plan_path NULL:
 * no plan. */
mp_status subject_load_as_planned(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
/* As subject_load_as_planned, and returns the plan as out->plan. The plan is checked, since a picture of a wrong plan would
 * mislead. MP_REFUTED: the plan does not hold. Other errors as mp_plan_read. */
mp_status subject_load_with_plan(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
void subject_free(subject *s);
/* Transfers the graph from the subject to the caller. The graph may outlive the subject. Release with mp_graph_free. */
mp_graph *subject_take_graph(subject *s);
/* Reads a model: an ONNX file, or if no file has this name, the network known by it, with sizes from --dim. MP_INVALID: neither
 * exists (the message suggests the closest name); or options for files with a network that has no file. */
mp_status subject_model(const char *path, const model_options *o, mp_model **out, mp_error *err);
/* Builds the network known by this name, even if a file has the same name. As subject_model. */
mp_status subject_named(const char *name, const model_options *o, mp_model **out, mp_error *err);
/* Returns the network known by this name; NULL if there is none, or if a file has this name. */
const mp_architecture *subject_architecture(const char *path);
/* True if the file is a training graph, judged by its name, or for standard input by its first bytes. */
bool subject_is_graph(const char *path);

/* Resolves --device: a backend that can run (NULL: none), and the profile for costs. MP_UNSUPPORTED: a backend missing from
 * this build. */
mp_status subject_device(const model_options *o, const mp_backend **backend, own_device *device, mp_error *err);

/* Adds the copies requested by --offload and --link to the subject's graph, and sets tier_bytes, folder and bytes_per_second.
 * Does nothing without these options. Called by subject_load. MP_INVALID: the folder or link does not exist, or nothing could
 * be copied; as mp_graph_offload. MP_UNSUPPORTED: the command cannot copy. */
mp_status subject_offload(const options *o, const own_device *device, subject *s, mp_error *err);
/* Reads --offload and --link for a command that can offload to host memory only. Without them *has_host is false. *bytes 0: no
 * limit. MP_INVALID: as subject_offload, or another destination. */
mp_status subject_host(const options *o, const own_device *device, bool *has_host, mp_link *link, int64_t *bytes,
                       mp_error *err);

/* Reads a network: a name, or a .json file. As mp_network_read and mp_network_json_read. */
mp_status subject_network(const char *name, mp_interconnect *out, mp_error *err);
/* Reads --mesh, --network and --bucket into s->ranks. Without them it is a mesh of one device. MP_INVALID: as mp_mesh_read and
 * mp_network_read, or one of the other options without --mesh. */
mp_status subject_mesh(const options *o, const own_device *device, subject *s, mp_error *err);

/* ---- pipelines: --mesh with pp ---- */

/* Returns the pipeline requested by the options; n_ranks 0: none. MP_INVALID: as mp_mesh_read and mp_schedule_check; pipeline
 * options without a pipeline; micro-batches that do not divide the batch. */
mp_status subject_pipeline(const options *o, mp_pipeline_shape *out, mp_error *err);
/* Cuts the subject's whole graph into stages, and keeps the graph of the rank named by --rank. As mp_pipeline_new. MP_INVALID:
 * no --rank. */
mp_status subject_cut(const options *o, const mp_pipeline_shape *shape, const mp_device *device, subject *s, mp_error *err);
/* Sets the stash of other micro-batches on the subject's rank, per chunk. NULL: the stash of keep-all. Updates graph, problem
 * and options. Does nothing without a pipeline. */
mp_status subject_hold(subject *s, const int64_t *bytes, mp_error *err);
/* Sets the stash given by --held; without it, the stash of keep-all. MP_INVALID: not a list of bytes, one per chunk. */
mp_status subject_hold_asked(const options *o, subject *s, mp_error *err);
/* Checks that the stash is large enough for these steps. Does nothing without a pipeline. As mp_rank_check. */
mp_status subject_check_held(const subject *s, const mp_step *steps, size_t n, mp_error *err);

/* If there are several ranks, prints their number and the bytes that the subject's rank sends. */
void subject_print_ranks(const subject *s);
/* Returns the same as JSON, a new reference; NULL if out of memory. */
json_t *subject_ranks_json(const subject *s);

/* Returns the rules under which the graph was built: the rules in its options, or else the executor's. */
mp_rules subject_rules(const subject *s);
/* Returns the program of a verdict: ", in PyTorch" or ", in memplan"; "" for a graph of another program. */
const char *subject_program(const subject *s);

/* Returns the batch size of the data inputs; 0 if unknown. */
int64_t subject_batch(const subject *s);

/* Finds the storages for a comma-separated list of tensor or storage names. If simplification replaced a tensor, uses the
 * replacement and reports it on standard error. MP_INVALID: a name does not exist (the message suggests the closest one), or is
 * not an activation of the forward pass. Release *list with mp_free. */
mp_status subject_checkpoints(const subject *s, const char *names, int **list, size_t *n, mp_error *err);

/* ---- the peak of keep-all under the other rules: PyTorch's rules if memplan's were requested, and the reverse ---- */

typedef struct other_rules {
    bool is_known; /* false for a graph file, which has no model, and for very large graphs */
    mp_rules rules;
    int64_t peak_bytes;
} other_rules;

/* Builds the model's training graph again under the rules that the options have not chosen. PyTorch's rules keep attention as
 * one operator and use no measured costs. If the graph is refused, is_known is false. MP_NOMEM. */
mp_status other_rules_of(const options *o, const subject *s, other_rules *out, mp_error *err);
/* As other_rules_of, for the model at this path and batch size; batch 0: the batch size of the options. */
mp_status other_rules_at(const options *o, const char *path, int64_t batch, other_rules *out, mp_error *err);
/* Returns the options for the other rules: without measured costs, without copies, and without repeated warnings. */
options other_options(const options *o);
/* Returns ", 7.62 GiB in memplan" as mp_text does; "" if the peak is unknown or equal. */
const char *other_rules_text(const other_rules *other, int64_t peak_bytes);
/* Return "in PyTorch" or "in memplan", and the option that shows details: "--rules pytorch". */
const char *other_rules_name(const other_rules *other);
const char *other_rules_option(const other_rules *other);
/* Returns {"rules": "pytorch", "peak_bytes": N} as a new reference; JSON null if unknown. NULL if out of memory. */
json_t *other_rules_json(const other_rules *other);

/* ---- the loss options in the library's form ---- */

typedef struct loss_options {
    mp_loss_options wanted; /* points into the fields below */
    int64_t ignore_index;
    double *class_weights, *pos_weight;
} loss_options;

/* Reads the numbers, and the lists that are given as files. Release with loss_options_free in any case. MP_INVALID: not
 * numbers. MP_PARSE, MP_IO: a file. MP_NOMEM. */
mp_status loss_options_read(const model_options *o, loss_options *out, mp_error *err);
void loss_options_free(loss_options *l);

/* ---- warnings: differences between a file and the network in training, and how to export a file without them. Each warning is
 * printed once, as one sentence on standard error ---- */

/* Warns that the file is an inference form. `keeps`: --keep-inference-norms was given. */
void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps);
/* Warns of weights that may be missing, counted twice or not trained (estimator/model/doubts.h), one line per kind. */
void warn_of_weights(const char *path, const mp_model *model);
/* Under PyTorch's rules: names operators that PyTorch may run differently than the file describes. `attention`: the inference
 * form of a file with attention, which may lack dropout; NULL: the file has no attention. MP_NOMEM. */
mp_status warn_of_guesses(const char *path, const mp_model *model, const mp_inference_form *attention, mp_error *err);
