/* options.h - what the user asked for. One table lists the options, the commands that take them, the fields that store
 * them, and which are stored in a graph so that it can be built again. */
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
    KIND_BYTES,   /* int64_t > 0, as "64MiB"; 0: not given */
    KIND_PERCENT, /* double > 0, as "0.5%", kept as a share; 0: not given */
    KIND_POSITIVE /* double > 0; 0: not given */
} option_kind;

typedef struct text_list {
    size_t n, capacity;
    const char **items;
} text_list;
static inline void text_list_free(text_list *list)
{
    mp_free(list->items);
    *list = (text_list){0}; /* two rows of options may have one list */
}

/* What the user asked for, grouped by reader. Texts point into argv, or into the JSON they were taken from. Without the
 * option a text is NULL and a number 0, unless the table has a default. */

/* Options that shape a training graph: those with a key are enough to build it again, apart from where weights are. */
typedef struct model_options {
    int64_t batch;
    text_list dims, data, train, freeze, lora;
    const char *external_folder, *output, *loss, *optimizer, *fuse, *dtype, *amp, *device, *rules;
    double label_smoothing, beta;
    const char *ignore_index, *class_weights, *pos_weight;
    bool simplify, fused_attention, keep_inference_norms, inexact, tf32, fast;
    int64_t chunk_steps, accumulate, workspace_limit; /* steps, micro-batches, bytes */
    double clip_norm;
    const char *costs; /* a file */
    text_list offload, link;
    bool offload_state;
    const char *mesh, *network, *reduce, *exchange;
    bool sync_batchnorm;
    int64_t bucket;   /* bytes */
    bool leaves_sums; /* set by commands: gradients are not summed over ranks yet */
    bool shares_all;  /* set by commands: the ranks share out parameters, which the mesh does not say */
    /* of pipelines: micro-batches of --batch, the schedule, stages per rank, where stages begin, which rank, what waits there
     */
    int64_t micro_batches, chunks;
    const char *pipeline, *stages, *rank, *held;
    bool is_second;     /* no option: the graph is built again to compare, and no warning is printed twice */
    int own_device;     /* no option: the number of the GPU that --device cuda is in this process */
    int64_t rank_bytes; /* no option: the memory for which stages are balanced; 0: that of --device */
} model_options;

/* Which plan to look for, and how. */
typedef struct search_options {
    const char *budget, *budgets, *memory; /* of the commands plan and train; sweep; fit and parallel */
    int64_t reserve;                       /* bytes, if it was given */
    const char *mode, *goal;               /* of the command share */
    int64_t micro_batch;                   /* samples */
    const char *explain;                   /* a mesh */
    int64_t devices, global_batch;
    const char *checkpoints, *solver, *solvers, *effort, *granularity, *without, *overhead;
    double gap;          /* share of a step */
    int64_t seed, moves; /* moves 0: the searcher's own default */
    double time_limit;   /* seconds */
    double begun;        /* mp_clock_now() of the program's first line */
    bool keep_order, second_stream, offsets, explain_bound, prove_bound;
} search_options;

/* How a training runs. */
typedef struct training_options {
    text_list test;
    const char *steps_each; /* of the command share */
    int64_t steps, warmup, save_every;
    double lr, momentum, weight_decay, timeout;
    const char *schedule, *save, *resume, *trace, *columns_in;
    bool runs; /* of the command share */
    bool nesterov, random_weights, before, captures, profile;
} training_options;

/* Which files to write or draw, and of what. */
typedef struct output_options {
    text_list links; /* to measure */
    const char *out, *format, *plan, *capacity, *view, *framework, *sort;
    int64_t depth, top;
    bool training, curve, minimize, per_op, csv, network;
} output_options;

/* How an answer is printed. */
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
    bool given[N_OPTIONS];   /* per option: it stands on the command line */
    const char *device_file; /* the file that --device named; NULL: none */
    char *device_text;       /* the text read from it, owned here */
    json_t *source;          /* owns the texts that options_adopt took */
} options;

typedef struct option_row {
    const char *name; /* "batch"; a single letter is written with one dash */
    option_kind kind;
    size_t offset;                   /* in options */
    unsigned commands;               /* bit k: command k takes it */
    const char *key;                 /* name in a graph's options; NULL: it does not shape the graph */
    bool is_rare;                    /* LIST, FLAG: not among the graph's options where it is empty, or not given */
    const char *argument;            /* as help shows it, "N" */
    const char *otherwise;           /* the default of a text or choice; NULL: none */
    int64_t least;                   /* COUNT */
    const char *(*choice)(size_t k); /* CHOICE: returns the k-th name, NULL past the end */
    bool (*also)(const char *name);  /* CHOICE: true for further names that it takes; may be NULL */
    const char *others;              /* how an error describes these further names */
    bool is_output;                  /* TEXT: the name of a file that the command writes */
    bool for_experiments;            /* only for tests and benches: help lists it last */
    const char *help;
} option_row;

extern const option_row option_rows[N_OPTIONS]; /* indexed by option_id */

/* True for the other name of the executor's rules, "memplan". */
bool option_is_executor(const char *name);

/* Fills *o from the words after the command. On a mistake it complains and returns EXIT_USAGE (EXIT_NO without memory); release
 * with options_free in any case. */
int options_parse(command_id command, int argc, char **argv, options *o);
void options_free(options *o);
/* Notes that the answer is about the memory of --device. If that is a card, PyTorch trains there: without --rules, and unless
 * the command itself trains, PyTorch's rules are taken. memplan's own executor trains on cpu and cuda. Called by options_parse
 * if
 * --device was given. */
void options_take_card(options *o);
/* True if the option was given on the command line. */
bool option_given(const options *o, option_id id);
/* Returns "--", or "-" for a name of one letter. */
const char *option_dashes(const option_row *row);
/* Returns the table's spelling of the value of a CHOICE. NULL if the option takes no such value. */
const char *option_taken(const option_row *row, const char *value);

/* Returns the options that shape the graph as a JSON object. NULL if memory is short. */
json_t *options_to_json(const options *o);
/* Takes options that the command line left open from `source` (a graph's options; *o keeps it alive). MP_INVALID: the
 * command line contradicts it; MP_PARSE: not an object of such options. */
mp_status options_adopt(options *o, json_t *source, mp_error *err);
