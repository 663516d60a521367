/* options.h - the options of a command. A single table lists all options, the commands that accept them, and the fields that
 * store their values. The table also marks the options that shape a training graph. They are stored in the graph, so that the
 * graph can be built again. */
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
    KIND_OFF,     /* bool, false if the option is given, otherwise true */
    KIND_TEXT,    /* const char * */
    KIND_CHOICE,  /* const char *, one of the choices of the table row */
    KIND_LIST,    /* text_list, one element per use */
    KIND_BINDING, /* text_list of NAME=N */
    KIND_COUNT,   /* int64_t, not less than `least` of the table row */
    KIND_BYTES,   /* int64_t > 0 in bytes, written like "64MiB"; 0: the option is not given */
    KIND_PERCENT, /* double > 0, written like "0.5%" and stored as a fraction; 0: the option is not given */
    KIND_POSITIVE /* double > 0; 0: the option is not given */
} option_kind;

typedef struct text_list {
    size_t n, capacity;
    const char **items;
} text_list;
static inline void text_list_free(text_list *list)
{
    mp_free(list->items);
    /* empties the list, so that it is not freed twice: two rows of the table may store to the same list */
    *list = (text_list){0};
}

/* The values of the options, grouped by the code that reads them. Texts point into argv, or into the JSON object from which
 * they were taken (options_adopt). If an option is not given, its text is NULL or its number is 0, unless the table states a
 * default. */

/* Options that shape a training graph. The options with a `key` in the table are enough to build the graph again, except for
 * the location of weights. */
typedef struct model_options {
    int64_t batch;
    text_list dims, data, train, freeze, lora;
    const char *external_folder, *output, *loss, *optimizer, *fuse, *dtype, *amp, *device, *rules;
    double label_smoothing, beta;
    const char *ignore_index, *class_weights, *pos_weight;
    bool simplify, fused_attention, keep_inference_norms, inexact, tf32, fast;
    /* chunk_steps: time steps of a sequence per chunk; accumulate: micro-batches per training step; workspace_limit: bytes */
    int64_t chunk_steps, accumulate, workspace_limit;
    double clip_norm;
    const char *costs; /* file with measured costs of nodes */
    text_list offload, link;
    bool offload_state;
    const char *mesh, *network, *reduce, *exchange;
    bool sync_batchnorm;
    int64_t bucket;   /* bytes that one collective sends together (a bucket) */
    bool leaves_sums; /* set by commands: the graph is built without all-reduces of gradients, which are added later */
    bool shares_all;  /* set by commands: ranks shard parameters, even if --mesh does not request it */
    /* For pipelines. micro_batches: number of micro-batches in --batch. chunks: stages per rank. The other fields are the
     * schedule (--pipeline), the first block of each stage (--stages), the rank (--rank) and the stash (--held). */
    int64_t micro_batches, chunks;
    const char *pipeline, *stages, *rank, *held;
    bool is_second; /* not an option: the same model is built again for a comparison, so warnings are not repeated */
    int own_device; /* not an option: number of the GPU that --device cuda means in this process */
    /* not an option: memory of a rank in bytes, to which pipeline stages are balanced; 0: the memory of --device */
    int64_t rank_bytes;
} model_options;

/* Options of the search for a plan, and of the answers that need plans. */
typedef struct search_options {
    /* --budget of plan and train; --budgets of sweep; --memory of fit and parallel */
    const char *budget, *budgets, *memory;
    int64_t reserve;         /* the value of --reserve in bytes; only valid if the option was given */
    const char *mode, *goal; /* options of the command share */
    int64_t micro_batch;     /* samples per micro-batch */
    const char *explain;     /* --explain of the command parallel: the mesh to be explained */
    int64_t devices, global_batch;
    const char *checkpoints, *solver, *solvers, *effort, *granularity, *without, *overhead;
    double gap;          /* --gap: the search ends when the plan is this close to the bound, as a fraction of a step's time */
    int64_t seed, moves; /* moves 0: the searcher's default */
    double time_limit;   /* seconds */
    double begun;        /* time at which the program started, by mp_clock_now() */
    bool keep_order, second_stream, offsets, explain_bound, prove_bound;
} search_options;

/* Options of a training. */
typedef struct training_options {
    text_list test;
    const char *steps_each; /* steps per job, for share */
    int64_t steps, warmup, save_every;
    double lr, momentum, weight_decay, timeout;
    const char *schedule, *save, *resume, *trace, *columns_in;
    bool runs; /* --run, for share */
    bool nesterov, random_weights, before, captures, profile;
} training_options;

/* Options of a command's output: the output file, its format, and the parts of the answer to be shown. */
typedef struct output_options {
    text_list links; /* the links that profile measures */
    const char *out, *format, *plan, *capacity, *view, *framework, *sort;
    int64_t depth, top;
    bool training, curve, minimize, per_op, csv, network;
} output_options;

/* Options of the printed answer. */
typedef struct talk_options {
    const char *color;
    bool json, quiet, verbose, list, shows_progress, help, short_help; /* short_help is -h */
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
    bool given[N_OPTIONS];   /* per option: it was given on the command line */
    const char *device_file; /* the file that --device named; NULL: --device named no file */
    char *device_text;       /* text that describes the device of device_file; owned by this struct */
    json_t *source;          /* the JSON object that owns the texts taken by options_adopt */
} options;

typedef struct option_row {
    const char *name; /* the name without dashes: "batch"; a one-letter name is used with one dash */
    option_kind kind;
    size_t offset;     /* offset of the field in struct options that stores the value */
    unsigned commands; /* bit k is set if the command with command_id k accepts the option */
    /* name of the option in the `options` object of a graph; NULL: the option does not shape the graph */
    const char *key;
    bool is_rare;                    /* LIST, FLAG: if empty or not given, the option is omitted in a graph's `options` */
    const char *argument;            /* the word for the value in help: "N" */
    const char *otherwise;           /* default value of a TEXT or CHOICE; NULL: none */
    int64_t least;                   /* COUNT: the smallest value */
    const char *(*choice)(size_t k); /* CHOICE: returns the k-th name; NULL: there are no more */
    /* CHOICE: returns true if another value is accepted, although it is no name of `choice`; may be NULL */
    bool (*also)(const char *name);
    const char *others;   /* CHOICE: describes the values that `also` accepts, for error messages */
    bool is_output;       /* TEXT: the name of a file that the command writes */
    bool for_experiments; /* the option is for tests and benchmarks only; help lists such options last */
    const char *help;
} option_row;

extern const option_row option_rows[N_OPTIONS]; /* indexed by option_id */

/* True for "memplan", which is another name for the rules of memplan's executor. */
bool option_is_executor(const char *name);

/* Parses the words after the command and stores the options in *o. On an error it prints a message and returns EXIT_USAGE
 * (EXIT_NO if out of memory). Release with options_free in any case. */
int options_parse(command_id command, int argc, char **argv, options *o);
void options_free(options *o);
/* Called if --device was given, so that the answer is about the memory of this device. If the device is a card (a GPU by name),
 * sets PyTorch's rules, because PyTorch usually trains on cards; memplan's executor trains on cpu and cuda. Does not change the
 * rules if --rules is given or if the command itself trains. */
void options_take_card(options *o);
/* True if the option was given on the command line. */
bool option_given(const options *o, option_id id);
/* Returns the dashes of an option: "-" for a one-letter name, otherwise "--". */
const char *option_dashes(const option_row *row);
/* Returns a CHOICE value in the spelling of the table; NULL if the option does not accept the value. */
const char *option_taken(const option_row *row, const char *value);

/* Returns the options that shape the graph as a JSON object; NULL if out of memory. */
json_t *options_to_json(const options *o);
/* Takes options from `source`, the `options` object of a graph, unless they were given on the command line. *o keeps `source`
 * alive. MP_INVALID: the command line contradicts `source`. MP_PARSE: `source` contains something other than options that shape
 * a graph. */
mp_status options_adopt(options *o, json_t *source, mp_error *err);
