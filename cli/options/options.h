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
    KIND_COUNT,   /* int64_t, at least the `least` of its row */
    KIND_BYTES,   /* int64_t > 0 in bytes, written like "64MiB"; 0: not given */
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

/* Options that shape a training graph. The rows with a `key` are enough to rebuild the graph, except for the location of
 * weights. */
typedef struct model_options {
    int64_t batch;
    text_list dims, data, train, freeze, lora;
    const char *external_folder, *output, *loss, *optimizer, *fuse, *dtype, *amp, *device, *rules;
    double label_smoothing, beta;
    const char *ignore_index, *class_weights, *pos_weight;
    bool simplify, fused_attention, keep_inference_norms, inexact, tf32, fast;
    int64_t chunk_steps, accumulate, workspace_limit; /* units: steps of a sequence per chunk, micro-batches, bytes */
    double clip_norm;
    const char *costs; /* name of the file with measured costs */
    text_list offload, link;
    bool offload_state;
    const char *mesh, *network, *reduce, *exchange;
    bool sync_batchnorm;
    int64_t bucket;   /* bytes sent together in one collective */
    bool leaves_sums; /* set by commands: the graph is built without the sums of gradients over ranks, which are added later */
    bool shares_all;  /* set by commands: ranks shard parameters, although --mesh does not request it */
    /* For pipelines. micro_batches: micro-batches per --batch. chunks: stages per rank. Then --pipeline (the schedule),
     * --stages (first block of each stage), --rank, and --held (the stash of other micro-batches). */
    int64_t micro_batches, chunks;
    const char *pipeline, *stages, *rank, *held;
    bool is_second; /* not an option: the same model is built a second time, for a comparison, so its warnings are not repeated
                     */
    int own_device; /* not an option: number of the GPU used by --device cuda in this process */
    int64_t rank_bytes; /* not an option: bytes of memory of a rank, for which pipeline stages are balanced; 0: the memory of
                           --device */
} model_options;

/* Options of the search for a plan. */
typedef struct search_options {
    /* --budget is for plan and train, --budgets for sweep, --memory for fit and parallel */
    const char *budget, *budgets, *memory;
    int64_t reserve;         /* bytes of reserve; only valid if --reserve was given */
    const char *mode, *goal; /* options of the command share */
    int64_t micro_batch;     /* samples per micro-batch */
    const char *explain;     /* the mesh to explain, for parallel */
    int64_t devices, global_batch;
    const char *checkpoints, *solver, *solvers, *effort, *granularity, *without, *overhead;
    double gap;          /* distance between plan and bound that ends the search, as a fraction of a step's time */
    int64_t seed, moves; /* moves 0: the searcher's default */
    double time_limit;   /* seconds */
    double begun;        /* time of the program's start, by mp_clock_now() */
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

/* Options of a command's output: the file, its format, and the parts of the answer to show. */
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
    bool given[N_OPTIONS];   /* per option: it is on the command line */
    const char *device_file; /* the file that --device named; NULL: it named no file */
    char *device_text;       /* the device as text, read from device_file; owned by this struct */
    json_t *source;          /* owns the texts adopted by options_adopt */
} options;

typedef struct option_row {
    const char *name; /* "batch"; a name of a single letter has one dash */
    option_kind kind;
    size_t offset;                   /* offset of the option's field in struct options */
    unsigned commands;               /* bit k: the command with command_id k accepts the option */
    const char *key;                 /* name in the `options` object of a graph; NULL: the option does not shape the graph */
    bool is_rare;                    /* LIST, FLAG: left out of a graph's `options` if empty or not given */
    const char *argument;            /* name of the value, as shown in help: "N" */
    const char *otherwise;           /* default value of a TEXT or CHOICE; NULL: none */
    int64_t least;                   /* COUNT: the smallest value */
    const char *(*choice)(size_t k); /* CHOICE: returns the k-th name; NULL: no more */
    bool (*also)(const char *name);  /* CHOICE: returns true for other values that are accepted; may be NULL */
    const char *others;              /* CHOICE: describes the values accepted by `also`, for error messages */
    bool is_output;                  /* TEXT: the name of a file that the command writes */
    bool for_experiments;            /* an option only for tests and benchmarks, which help lists last */
    const char *help;
} option_row;

extern const option_row option_rows[N_OPTIONS]; /* indexed by option_id */

/* True for "memplan", an alternative name of the executor's rules. */
bool option_is_executor(const char *name);

/* Fills in *o from the words after the command. On an error it prints a message and returns EXIT_USAGE (EXIT_NO if out of
 * memory). Release with options_free in any case. */
int options_parse(command_id command, int argc, char **argv, options *o);
void options_free(options *o);
/* Called if --device was given: the answer is then about the memory of this device. If the device is a card (a GPU by name),
 * PyTorch trains on it. PyTorch's rules are then the default, unless --rules is given or the command itself trains. memplan's
 * executor trains on cpu and cuda. */
void options_take_card(options *o);
/* True if the option was given on the command line. */
bool option_given(const options *o, option_id id);
/* Returns "--", or "-" for a name of one letter. */
const char *option_dashes(const option_row *row);
/* Returns the table's spelling of a CHOICE value; NULL if the option does not accept it. */
const char *option_taken(const option_row *row, const char *value);

/* Returns the options that shape the graph as a JSON object; NULL if out of memory. */
json_t *options_to_json(const options *o);
/* Sets the options that are not on the command line from `source`, the `options` object of a graph. *o keeps `source` alive.
 * MP_INVALID: the command line contradicts `source`. MP_PARSE: `source` is not an object of such options. */
mp_status options_adopt(options *o, json_t *source, mp_error *err);
