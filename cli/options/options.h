/* options.h - the options of a command. A single table lists all options, the commands that accept them, and the fields that
 * store them. It also marks the options that are stored in a graph so that the graph can be rebuilt. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"

#define COMMAND(ID, ...) CMD_##ID,
typedef enum command_id {
#include "cli/options/commands.def"
    N_COMMANDS
} command_id;
#undef COMMAND

#define OPTION(ID, ...) OPT_##ID,
typedef enum option_id {
#include "cli/options/options.def"
    N_OPTIONS
} option_id;
#undef OPTION

typedef enum option_kind {
    KIND_FLAG,    /* bool, true if given */
    KIND_OFF,     /* bool, false if given, else true */
    KIND_TEXT,    /* const char * */
    KIND_CHOICE,  /* const char *, one of the row's choices */
    KIND_LIST,    /* text_list, one element per use */
    KIND_BINDING, /* text_list of NAME=N */
    KIND_COUNT,   /* int64_t >= the row's least */
    KIND_BYTES,   /* int64_t > 0, written like "64MiB"; 0: not given */
    KIND_PERCENT, /* double > 0, written like "0.5%", stored as a fraction; 0: not given */
    KIND_POSITIVE /* double > 0; 0: not given */
} option_kind;

typedef struct text_list {
    size_t n, capacity;
    const char **items;
} text_list;
static inline void text_list_free(text_list *list)
{
    mp_free(list->items);
    *list = (text_list){0}; /* two rows of options may share one list */
}

/* The options, grouped by the code that reads them. Texts point into argv, or into the JSON from which they were adopted. If an
 * option is not given, a text is NULL and a number is 0, unless the table has a default. */

/* Options that shape a training graph. The options with a key are enough to rebuild it, except for the location of weights. */
typedef struct model_options {
    int64_t batch;
    text_list dims, data, train, freeze, lora;
    const char *external_folder, *output, *loss, *optimizer, *fuse, *dtype, *amp, *device, *rules;
    double label_smoothing, beta;
    const char *ignore_index, *class_weights, *pos_weight;
    bool simplify, fused_attention, keep_inference_norms, inexact, tf32, fast;
    int64_t chunk_steps, accumulate, workspace_limit; /* in steps, micro-batches, bytes */
    double clip_norm;
    const char *costs; /* a file name */
    text_list offload, link;
    bool offload_state;
    const char *mesh, *network, *reduce, *exchange;
    bool sync_batchnorm;
    int64_t bucket;   /* bytes */
    bool leaves_sums; /* set by commands: the graph is built without the sums of gradients over ranks, which are added later */
    bool shares_all;  /* set by commands: ranks shard parameters, although the mesh does not say so */
    /* for pipelines: micro-batches of --batch, schedule, stages per rank, begins of stages, rank, stash */
    int64_t micro_batches, chunks;
    const char *pipeline, *stages, *rank, *held;
    bool is_second;     /* not an option: the graph is built again for comparison, so that warnings are not repeated */
    int own_device;     /* not an option: number of the GPU used by --device cuda in this process */
    int64_t rank_bytes; /* not an option: the memory for which stages are balanced; 0: the memory of --device */
} model_options;

/* Options of the search for a plan. */
typedef struct search_options {
    const char *budget, *budgets, *memory; /* of plan and train; of sweep; of fit and parallel */
    int64_t reserve;                       /* bytes, if given */
    const char *mode, *goal;               /* of the command share */
    int64_t micro_batch;                   /* samples */
    const char *explain;                   /* a mesh */
    int64_t devices, global_batch;
    const char *checkpoints, *solver, *solvers, *effort, *granularity, *without, *overhead;
    double gap;          /* fraction of a step */
    int64_t seed, moves; /* moves 0: the searcher's default */
    double time_limit;   /* seconds */
    double begun;        /* mp_clock_now() of the program's first line */
    bool keep_order, second_stream, offsets, explain_bound, prove_bound;
} search_options;

/* Options of a training. */
typedef struct training_options {
    text_list test;
    const char *steps_each; /* of the command share */
    int64_t steps, warmup, save_every;
    double lr, momentum, weight_decay, timeout;
    const char *schedule, *save, *resume, *trace, *columns_in;
    bool runs; /* of the command share */
    bool nesterov, random_weights, before, captures, profile;
} training_options;

/* Options of a command's output: the file, its format, and the parts of the answer to show. */
typedef struct output_options {
    text_list links; /* links to measure */
    const char *out, *format, *plan, *capacity, *view, *framework, *sort;
    int64_t depth, top;
    bool training, curve, minimize, per_op, csv, network;
} output_options;

/* Options of the printed answer. */
typedef struct talk_options {
    const char *color;
    bool json, quiet, verbose, list, shows_progress, help, short_help; /* short_help: -h */
} talk_options;

typedef struct options {
    model_options model;
    search_options search;
    training_options training;
    output_options output;
    talk_options talk;
    size_t n_operands;
    const char **operands;
    command_id command;
    bool given[N_OPTIONS];   /* per option: it is on the command line */
    const char *device_file; /* the file named by --device; NULL: none */
    char *device_text;       /* the text derived from that file; owned here */
    json_t *source;          /* owns the texts adopted by options_adopt */
} options;

typedef struct option_row {
    const char *name; /* "batch"; a name of a single letter has one dash */
    option_kind kind;
    size_t offset;                   /* of the field in `options` */
    unsigned commands;               /* bit k: command k accepts it */
    const char *key;                 /* name in a graph's options; NULL: the option does not affect the graph */
    bool is_rare;                    /* LIST, FLAG: omitted from the graph's options if empty, or not given */
    const char *argument;            /* as shown in help: "N" */
    const char *otherwise;           /* the default of a text or choice; NULL: none */
    int64_t least;                   /* COUNT: the smallest value */
    const char *(*choice)(size_t k); /* CHOICE: returns the k-th name; NULL: no more */
    bool (*also)(const char *name);  /* CHOICE: true for other accepted values; may be NULL */
    const char *others;              /* description of these other values in error messages */
    bool is_output;                  /* TEXT: the name of a file that the command writes */
    bool for_experiments;            /* only for tests and benchmarks; listed last in help */
    const char *help;
} option_row;

extern const option_row option_rows[N_OPTIONS]; /* indexed by option_id */

/* True for "memplan", an alternative name of the executor's rules. */
bool option_is_executor(const char *name);

/* Fills in *o from the words after the command. On an error it prints a message and returns EXIT_USAGE (EXIT_NO if out of
 * memory). Release with options_free in any case. */
int options_parse(command_id command, int argc, char **argv, options *o);
void options_free(options *o);
/* Records that the answer is about the memory of --device. If it is a card, PyTorch trains there. PyTorch's rules are then the
 * default, unless --rules is given or the command itself trains. memplan's executor trains on cpu and cuda. options_parse calls
 * this function if --device was given. */
void options_take_card(options *o);
/* True if the option was given on the command line. */
bool option_given(const options *o, option_id id);
/* Returns "--", or "-" for a name of one letter. */
const char *option_dashes(const option_row *row);
/* Returns the table's spelling of a CHOICE value; NULL if the option does not accept it. */
const char *option_taken(const option_row *row, const char *value);

/* Returns the options that shape the graph as a JSON object; NULL if out of memory. */
json_t *options_to_json(const options *o);
/* Adopts options that are not on the command line from `source`, the options of a graph. *o keeps `source` alive. MP_INVALID:
 * the command line contradicts it. MP_PARSE: not an object of such options. */
mp_status options_adopt(options *o, json_t *source, mp_error *err);
