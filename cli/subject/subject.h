/* subject.h - the subject of a command: a model and its training graph, or a training graph that was read from a file. */
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

/* For comparisons, a graph is built again with other options or rules if it has at most this number of nodes. Larger graphs
 * take seconds to build. */
enum { SUBJECT_TRIED_NODES = 20000 };

typedef struct subject {
    const char *path;
    char title[256];   /* "resnet50, batch 32" */
    char heading[512]; /* the heading of pictures: "resnet50, batch 32, dp=2, fp32, a100" */
    const char *file;  /* path of the model's file; NULL: a network known by name, or a graph file */
    mp_model *model;   /* the model; NULL: the graph was read from a file */
    mp_graph *graph;
    mp_problem *problem; /* the floor and precedence of `graph`, computed when they are first needed */
    mp_plan *plan;       /* loaded by subject_load_with_plan; otherwise NULL */
    mp_program *program; /* a program that can run `graph` and owns it; NULL: no backend that --device names can run it */
    mp_simplify_report simplified;
    mp_attention_report attention;
    mp_sequence_report sequences;
    mp_inference_form inference;      /* signs that the file was exported for inference, counted before simplification */
    json_t *options;                  /* the `options` object that is stored in the graph */
    int64_t tier_bytes[MP_MAX_TIERS]; /* the budgets of tiers, from --offload, as in mp_request */
    char *folder;                     /* the folder for copies to the tier "disk"; NULL: none */
    mp_ranks ranks;                   /* the mesh of --mesh; without --mesh, a mesh of a single device */
    mp_rank_traffic traffic;          /* bytes that this rank sends in a step of keep-all */
    mp_split split;                   /* how the model is split over the ranks of tp */
    /* the reason why no program can run the split model; MP_OK: a program can, or none is needed */
    mp_error not_run;
    /* the pipeline rank to which `graph` belongs; shape.n_ranks is 0 if there is no pipeline */
    mp_rank rank;
    int n_blocks, *begins; /* for a pipeline: number of blocks of the network; per stage, the first block */
    /* per channel of copies: the rate that --link states; 0: it states none, as in mp_execution_options */
    double bytes_per_second[MP_MAX_CHANNELS];
} subject;

/* Loads the subject from a path. A name ending in .json, .dot or .gv is a training graph. Any other name is a model
 * (subject_model). A model is simplified, a loss is added, and the training graph is built according to the options. If the
 * model file was exported for inference, prints a warning. MP_INVALID: options for models were given with a graph file. Release
 * with subject_free on any status. */
mp_status subject_load(const char *path, const options *o, subject *out, mp_error *err);
/* Loads the subject like subject_load, for a model and the plan in a file. Options that were not given on the command line are
 * taken from the plan. plan_path NULL: there is no plan. */
mp_status subject_load_as_planned(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
/* Loads the subject like subject_load_as_planned, and also loads the plan to out->plan. The plan is checked, because a picture
 * of a wrong plan would mislead the user. MP_REFUTED: a claim of the plan is false. Other errors as mp_plan_read. */
mp_status subject_load_with_plan(const char *path, const char *plan_path, options *o, subject *out, mp_error *err);
void subject_free(subject *s);
/* Returns the subject's graph and transfers ownership to the caller. The graph may outlive the subject. Release with
 * mp_graph_free. */
mp_graph *subject_take_graph(subject *s);
/* Reads a model from an ONNX file. If there is no such file, builds the network that memplan knows by this name, with sizes
 * from --dim. MP_INVALID: neither exists (the message suggests the nearest name), or a network without a file was given options
 * for files. */
mp_status subject_model(const char *path, const model_options *o, mp_model **out, mp_error *err);
/* Builds the network that memplan knows by this name, even if there is a file with the same name. As subject_model. */
mp_status subject_named(const char *name, const model_options *o, mp_model **out, mp_error *err);
/* Returns the network that memplan knows by this name. Returns NULL if there is none, or if a file has this name. */
const mp_architecture *subject_architecture(const char *path);
/* True if the path is that of a training graph and not of a model. The extension decides, or for standard input the first
 * bytes. */
bool subject_is_graph(const char *path);

/* Finds the backend and the device profile for --device. *backend is NULL if no backend of this name can run a graph; the
 * profile then only determines costs. MP_UNSUPPORTED: the backend is missing in this build. */
mp_status subject_device(const model_options *o, const mp_backend **backend, own_device *device, mp_error *err);

/* Adds the copies to other tiers to the subject's graph, as --offload and --link request. Sets tier_bytes, folder and
 * bytes_per_second. Does nothing if the options were not given. Called by subject_load. MP_INVALID: the folder or link does not
 * exist, or nothing can be copied; as mp_graph_offload. MP_UNSUPPORTED: the command cannot copy. */
mp_status subject_offload(const options *o, const own_device *device, subject *s, mp_error *err);
/* Reads --offload and --link for a command that can only offload to host memory. *has_host is false if --offload is not given.
 * *bytes is the limit of host memory; 0: no limit. MP_INVALID: as subject_offload, or --offload names the disk. */
mp_status subject_host(const options *o, const own_device *device, bool *has_host, mp_link *link, int64_t *bytes,
                       mp_error *err);

/* Reads the network of --network: the name of a known network, or a .json file. As mp_network_read and mp_network_json_read. */
mp_status subject_network(const char *name, mp_interconnect *out, mp_error *err);
/* Reads --mesh, --network and --bucket to s->ranks. Without --mesh, the mesh is a single device. MP_INVALID: as mp_mesh_read
 * and mp_network_read, or --network or --bucket is given without --mesh. */
mp_status subject_mesh(const options *o, const own_device *device, subject *s, mp_error *err);

/* ---- pipelines: a --mesh with pp above 1 ---- */

/* Returns the shape of the pipeline that the options request. n_ranks is 0 if they request no pipeline. MP_INVALID: as
 * mp_mesh_read and mp_schedule_check; pipeline options without a pipeline; a number of micro-batches that does not divide the
 * batch. */
mp_status subject_pipeline(const options *o, mp_pipeline_shape *out, mp_error *err);
/* Cuts the subject's graph, which is that of the whole network, into pipeline stages. Replaces it by the graph of the rank that
 * --rank names. As mp_pipeline_new. MP_INVALID: --rank is missing. */
mp_status subject_cut(const options *o, const mp_pipeline_shape *shape, const mp_device *device, subject *s, mp_error *err);
/* Sets the stash of the subject's pipeline rank: per chunk, the bytes for other micro-batches in flight. NULL: the stash of
 * keep-all. Updates graph, problem and options. Does nothing without a pipeline. */
mp_status subject_hold(subject *s, const int64_t *bytes, mp_error *err);
/* Sets the stash to the bytes of --held, or without --held to the stash of keep-all. MP_INVALID: --held is no list of bytes,
 * one per chunk. */
mp_status subject_hold_asked(const options *o, subject *s, mp_error *err);
/* Checks that the stash is large enough for these steps. Does nothing without a pipeline. As mp_rank_check. */
mp_status subject_check_held(const subject *s, const mp_step *steps, size_t n, mp_error *err);

/* Prints the number of ranks and the bytes that the subject's rank sends. Prints nothing if there is a single rank. */
void subject_print_ranks(const subject *s);
/* Returns the numbers that subject_print_ranks prints as a new JSON reference; NULL if out of memory. */
json_t *subject_ranks_json(const subject *s);

/* Returns the rules for which the graph was built: the rules in its options, or without them the rules of memplan's
 * executor. */
mp_rules subject_rules(const subject *s);
/* Returns the name of the program that trains, as a part of a verdict: ", in PyTorch" or ", in memplan". Returns "" for a graph
 * from another program. */
const char *subject_program(const subject *s);

/* Returns the number of samples in the batch that the data inputs hold; 0 if unknown. */
int64_t subject_batch(const subject *s);

/* Finds the storages of a comma-separated list of tensor or storage names. If simplification removed a tensor, uses the tensor
 * that replaced it, and prints a note on standard error. MP_INVALID: a name does not exist (the message suggests the nearest
 * name), or is not an activation of the forward pass. Release *list with mp_free. */
mp_status subject_checkpoints(const subject *s, const char *names, int **list, size_t *n, mp_error *err);

/* ---- the other rules: PyTorch's if the answer uses the rules of memplan's executor, and the reverse ----
 *
 * Rules decide which tensors a training step keeps for backward. */

typedef struct other_rules {
    bool is_known; /* true if peak_bytes is known; false for a graph file, which has no model, and for very large graphs */
    mp_rules rules;
    int64_t peak_bytes;
} other_rules;

/* Builds the training graph again under the other rules, and computes the peak of keep-all. Under PyTorch's rules, attention is
 * always one operator, and measured costs are not used. If the other rules refuse the model, is_known is false. MP_NOMEM. */
mp_status other_rules_of(const options *o, const subject *s, other_rules *out, mp_error *err);
/* Computes the same as other_rules_of, for the model at this path and with this batch size. batch 0: the batch size of the
 * options. */
mp_status other_rules_at(const options *o, const char *path, int64_t batch, other_rules *out, mp_error *err);
/* Returns a copy of the options with the other rules. The copy has no measured costs and no copies to other tiers, and does not
 * repeat warnings. */
options other_options(const options *o);
/* Returns the peak under the other rules as a part of a sentence, ", 7.62 GiB in memplan". mp_text allocates it. Returns "" if
 * the peak is unknown or equal to peak_bytes. */
const char *other_rules_text(const other_rules *other, int64_t peak_bytes);
/* The first returns the program of the other rules, "in PyTorch" or "in memplan". The second returns the option that selects
 * these rules, "--rules pytorch". */
const char *other_rules_name(const other_rules *other);
const char *other_rules_option(const other_rules *other);
/* Returns the peak under the other rules as a new reference to {"rules": "pytorch", "peak_bytes": N}. JSON null: the peak is
 * unknown. NULL: out of memory. */
json_t *other_rules_json(const other_rules *other);

/* ---- the options of the loss, as numbers and lists ---- */

typedef struct loss_options {
    mp_loss_options wanted; /* the converted options, which point to the fields below */
    int64_t ignore_index;
    double *class_weights, *pos_weight;
} loss_options;

/* Reads the numbers and lists of the loss options. A list may be in a file. Release with loss_options_free on any status.
 * MP_INVALID: a value is not a number. MP_PARSE, MP_IO: a file cannot be read. MP_NOMEM. */
mp_status loss_options_read(const model_options *o, loss_options *out, mp_error *err);
void loss_options_free(loss_options *l);

/* ---- warnings if a model file differs from the network that is trained. Each warning is one sentence on standard error, is
 * printed once, and states how to export the file correctly ---- */

/* Warns if the file was exported for inference. `keeps`: --keep-inference-norms was given. */
void warn_of_inference_form(const char *path, const mp_inference_form *form, bool keeps);
/* Warns about weights that may be missing, counted twice or not trained (estimator/model/doubts.h). Prints one line per kind of
 * doubt. */
void warn_of_weights(const char *path, const mp_model *model);
/* Under PyTorch's rules: warns about operators that PyTorch may run in another way than the file describes, and names them.
 * `attention`: the signs of an inference graph, for a file with attention, whose dropout may be missing; NULL: the file has no
 * attention. MP_NOMEM. */
mp_status warn_of_guesses(const char *path, const mp_model *model, const mp_inference_form *attention, mp_error *err);
