/* workload.h - a model with all settings of its training: the source of its training graph, program, ranks and plans.
 *
 * The command line, and every C program that trains or plans a model as the command line does, begin with a workload. Loading
 * reads a model (an ONNX file, a network known by name) or a training graph, and applies the passes of the settings in a fixed
 * order: simplify, adapters, loss, split over ranks, training graph, collectives, copies (mp_workload_passes lists them).
 *
 *     // given: mp_error *err
 *     mp_workload_options options = mp_workload_defaults();
 *     mp_workload workload = {0};
 *     options.batch = 8;
 *     MP_CHECK(mp_mesh_read("dp=2,pp=2", &options.mesh, err));
 *     options.rank = "0";
 *     MP_CHECK(mp_workload_load("gpt2-small", &options, &workload, err)); // workload.graph is the graph of rank 0
 *     mp_workload_free(&workload);
 */
#pragma once

#include "memplan/budget.h"
#include "memplan/graph.h"
#include "memplan/plan.h"
#include "memplan/problem.h"
#include "memplan/program.h"
#include "memplan/ranks/exchange.h"
#include "memplan/ranks/pipeline.h"
#include "memplan/solver.h"
#include "memplan/studies/update_effect.h"

/* A list of texts, such as names and patterns. */
typedef struct mp_text_list {
    size_t n, capacity; /* capacity 0: the caller owns `items` */
    const char **items;
} mp_text_list;
/* Releases `items`, unless the caller owns them, and empties the list. */
void mp_text_list_free(mp_text_list *list);

/* The settings of a workload. The fields are named as the options of the command line (docs/reference/commands.md), which
 * describes their values. Texts must outlive the workload. NULL, 0 and an empty list mean that a setting is not given; begin
 * with mp_workload_defaults. */
typedef struct mp_workload_options {
    int64_t batch;
    mp_text_list dims, data, train, freeze, lora; /* dims: "sequence=128"; lora: "16:*query*" */
    const char *external_folder, *output, *loss, *optimizer, *fuse, *dtype, *amp, *device, *rules;
    double label_smoothing, beta;
    const char *ignore_index, *class_weights, *pos_weight;
    const char *row_chunks; /* "head=8,mlp=4": the logits and their loss are computed in 8 chunks of rows, MLPs in 4. Other
                               kinds are attention and rows. "off" or NULL: whole; "auto": whole, until numbers are chosen
                               (workloads/row_chunks.h) */
    bool simplify, fused_attention, keep_inference_norms, inexact, tf32, fast;
    /* chunk_steps: steps of a sequence per chunk. accumulate: micro-batches per update. workspace_limit: bytes */
    int64_t chunk_steps, accumulate, workspace_limit;
    double clip_norm;
    const char *costs; /* name of the file with measured costs */
    mp_text_list offload, link;
    bool offload_state;
    mp_mesh mesh;                         /* a mesh whose sizes are all 0: one device without a mesh */
    const char *network, *reduce, *rates; /* rates NULL: peak */
    bool sync_batchnorm;
    int64_t bucket;          /* largest number of bytes that one collective sends together */
    mp_text_list fsdp_units; /* patterns of modules that fully_shard wraps besides the blocks */
    /* For pipelines. micro_batches: micro-batches per batch. chunks: stages per rank. Then the schedule, the first block of
     * each stage, the rank, and the stash of other micro-batches. */
    int64_t micro_batches, chunks;
    const char *pipeline_schedule, *stages, *rank, *stash;

    /* The fields below have no option of their own. */
    bool leaves_sums;      /* true: build the graph without the sums of gradients over ranks, which are added later */
    bool leaves_whole;     /* true: build the graph of the whole network, which is cut into stages later */
    bool shares_all;       /* true: ranks shard parameters, although `mesh` does not request it */
    bool trains;           /* true: the program will train: folders of `offload` must exist, GPUs copy to host memory only */
    bool opens_device;     /* true: open the device of the backend before the graph is built */
    bool runs_alone;       /* true: this process runs without other ranks, so a rank of a pipeline gets no program */
    bool may_lack_folders; /* true: the folders of `offload` come from a plan, and need not exist on this machine */
    int own_device;        /* number of the GPU that "cuda" denotes in this process */
    int64_t rank_bytes;    /* memory of a rank in bytes, for which pipeline stages are balanced; 0: the memory of the device */
    bool has_reserve;      /* true: `reserve_bytes` replaces the reserve of the device's profile */
    int64_t reserve_bytes;
    struct json_t *adopted; /* owner of the texts that were taken from plans; otherwise NULL */
} mp_workload_options;

/* Returns the settings of a command line without options: loss auto, adamw, fp32, device a100, the executor's rules. */
mp_workload_options mp_workload_defaults(void);

enum { MP_WORKLOAD_TITLE_MAX = 256, MP_WORKLOAD_HEADING_MAX = 512 };

/* A warning or notice about a workload: one sentence without a full stop at its end, beginning with the path. */
typedef enum mp_note_kind {
    MP_NOTE_VERSION,    /* warning: the file uses a newer operator set than the known ones */
    MP_NOTE_WEIGHTS,    /* warning: weights may be missing, counted twice or not trained */
    MP_NOTE_INFERENCE,  /* warning: the file was exported for inference */
    MP_NOTE_GUESSES,    /* warning: PyTorch may run the network in another way than the file describes */
    MP_NOTE_ACCURACY,   /* the accuracy of seconds at achieved rates is unknown */
    MP_NOTE_CHECKPOINT, /* note: simplification replaced a tensor that the caller named */
    MP_N_NOTE_KINDS
} mp_note_kind;
typedef struct mp_note {
    mp_note_kind kind;
    const char *text;
} mp_note;

/* A loaded workload. The fields may be read; only the functions below change them. */
typedef struct mp_workload {
    const char *path;
    char title[MP_WORKLOAD_TITLE_MAX];     /* "resnet50, batch 32" */
    char heading[MP_WORKLOAD_HEADING_MAX]; /* heading of pictures: "resnet50, batch 32, dp=2, fp32, a100" */
    const char *file;                      /* path of the model's file; NULL: a network known by name, or a graph file */
    mp_model *model;                       /* NULL: the graph was read from a file */
    mp_graph *graph;
    mp_problem *problem; /* keep-all, floor and precedence of `graph`, each computed when first needed */
    mp_plan *plan;       /* loaded by mp_workload_load_with_plan; otherwise NULL */
    mp_program *program; /* the program that can run `graph`, and owns it; NULL: the device is not a backend that can run it */
    int64_t tier_bytes[MP_MAX_TIERS];         /* budgets of the tiers from `offload`, as in mp_request */
    double bytes_per_second[MP_MAX_CHANNELS]; /* per channel of copies: the rate stated by `link`; 0: none stated, as in
                                                 mp_execution_options */
    char *folder;                             /* folder of the tier "disk"; NULL: none */
    mp_ranks ranks;                           /* the mesh and its network; without a mesh, a single device */
    int64_t n_passes;        /* number of micro-batches of a training step: of gradient accumulation, or of a pipeline */
    mp_rank_traffic traffic; /* data that the rank sends in a training step of keep-all */
    mp_rank rank;            /* the pipeline rank whose graph is `graph`; shape.n_ranks is 0 if there is no pipeline */
    int n_blocks, *begins;   /* of a pipeline: number of blocks of the network; per stage, its first block */
    size_t n_notes;
    mp_note *notes;                      /* warnings, in the order in which they were found; also set if loading failed */
    struct mp_workload_details *details; /* the reports of the passes; private */
} mp_workload;

/* Loads the workload from a path. A name ending in .json, .dot or .gv is a training graph. Any other name is a model: an ONNX
 * file, or a network that memplan knows by this name. "-" is standard input, which must be a file that can be read twice.
 * Release with mp_workload_free on any status. MP_INVALID: settings contradict each other. For a graph file the
 * settings are ignored. Other errors as mp_onnx_read and mp_training_graph. O(model + graph). */
mp_status mp_workload_load(const char *path, const mp_workload_options *o, mp_workload *out, mp_error *err);
void mp_workload_free(mp_workload *w);

/* Like mp_workload_load, for a model with a plan file. Settings that are not `given` are taken from the plan, and set in *o,
 * which then owns their texts (mp_workload_options_free). given[k] belongs to row k of the option table; NULL: none is given.
 * plan_path NULL: there is no plan. MP_INVALID: a given setting contradicts the plan. Other errors as mp_plan_read. */
mp_status mp_workload_load_as_planned(const char *path, const char *plan_path, mp_workload_options *o, const bool *given,
                                      mp_workload *out, mp_error *err);
/* Like mp_workload_load_as_planned, and loads and checks the plan: out->plan. MP_REFUTED: a claim of the plan is false. */
mp_status mp_workload_load_with_plan(const char *path, const char *plan_path, mp_workload_options *o, const bool *given,
                                     mp_workload *out, mp_error *err);
/* Releases the texts and lists that were taken from a plan, and empties all lists. */
void mp_workload_options_free(mp_workload_options *o);

/* Returns the names of the passes that built the workload, in execution order, NULL at the end; an empty list for a graph file.
 * O(passes). */
const char *const *mp_workload_passes(const mp_workload *w);
/* Returns the workload's graph and makes the caller its owner. The graph may outlive the workload, which can then only be
 * released. Release with mp_graph_free. */
mp_graph *mp_workload_take_graph(mp_workload *w);
/* True if the path names a training graph. Its extension decides, or for standard input the first bytes. */
bool mp_workload_is_graph(const char *path);
/* Returns the rules for which the graph was built: those in its options, otherwise the rules of memplan's executor. */
mp_rules mp_workload_rules(const mp_workload *w);
/* Computes the data that the workload's rank sends in a training step whose micro-batches each run steps[0..n), as the mean
 * over the ranks of each collective. MP_NOMEM. O(gathers * n). */
mp_status mp_workload_traffic(const mp_workload *w, const mp_step *steps, size_t n, mp_rank_traffic *out, mp_error *err);
/* Returns the number of samples in a batch of the data inputs; 0 if unknown. */
int64_t mp_workload_batch(const mp_workload *w);
/* Counts the elements of all parameters (*all), and of those that are trained (*trained). Parameters on which the loss does not
 * depend also count. -1: unknown, because the workload is a graph file. O(tensors * patterns). */
void mp_workload_parameters(const mp_workload *w, const mp_workload_options *o, int64_t *all, int64_t *trained);

/* Memory and traffic of a training step if updates run after, within or before the other nodes (`fuse`). */
typedef struct mp_update_effects {
    /* per value of `fuse`: true if it is possible. `backward` is impossible if gradients are clipped by their global norm */
    bool is_possible[MP_N_FUSES];
    mp_update_effect effects[MP_N_FUSES];
    int64_t cache_bytes; /* size of the device's cache */
} mp_update_effects;
/* Builds the training graph of a model once per value of `fuse`, and measures each with everything kept. Errors as
 * mp_workload_load. */
mp_status mp_workload_update_effects(const char *path, const mp_workload_options *o, mp_update_effects *out, mp_error *err);

/* Finds the storages of a comma-separated list of tensor or storage names. If simplification replaced a tensor, uses the
 * tensor that replaced it, and adds a note. MP_INVALID: a name does not exist (the message suggests the nearest name), or is
 * not an activation of the forward pass. Release *list with mp_free. O(names * tensors). */
mp_status mp_workload_checkpoints(mp_workload *w, const char *names, int **list, size_t *n, mp_error *err);
