/* options.h - what the user asked for. One table says which options there are, which commands take them, how they are stored,
 * and which of them go into a graph so that it can be built again.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    KIND_FLAG,    /* bool, set */
    KIND_OFF,     /* bool, cleared; true without the option */
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

/* Texts point into argv, or into the JSON they were taken from. */
typedef struct options {
    int64_t batch; /* 0: not given */
    text_list dims, data, test, train, freeze, lora;
    const char *output, *external_folder; /* NULL: not given */
    const char *loss, *optimizer, *fuse, *dtype, *amp, *device, *rules;
    double label_smoothing, beta;                          /* 0: not given */
    const char *ignore_index, *class_weights, *pos_weight; /* NULL: not given */
    bool simplify;
    int64_t chunk_steps;              /* 0: not given */
    const char *budget, *checkpoints; /* NULL: not given */
    const char *solver, *effort;
    double gap; /* share of a step; 0: not given */
    bool explain_bound;
    bool prove_bound;
    const char *without;                               /* NULL: not given */
    const char *budgets, *solvers, *memory, *overhead; /* NULL: not given */
    int64_t seed, moves;                               /* moves 0: the solver's own default */
    double time_limit, begun;                          /* 0: none; mp_clock_now() of the program's first line */
    const char *out, *capacity;                        /* NULL: not given */
    const char *plan;                                  /* NULL: not given */
    int64_t depth, top;                                /* 0: not given */
    const char *sort, *format;                         /* NULL: not given */
    bool training;
    const char *view;
    const char *granularity, *framework;
    int64_t accumulate; /* 0: not given */
    double clip_norm;   /* 0: not given */
    bool inexact, fused_attention, keep_inference_norms;
    bool tf32, fast;
    int64_t workspace_limit; /* bytes; 0: not given */
    int64_t reserve;         /* bytes, where it was given */
    const char *costs;       /* NULL: not given */
    int64_t steps, warmup, save_every;
    double lr, momentum, weight_decay; /* 0: not given */
    bool nesterov, random_weights, before, captures, profile, keep_order, second_stream, offsets, curve;
    const char *schedule, *save, *resume;               /* schedule has a default, the others NULL: not given */
    bool minimize, per_op, csv, json, help, short_help; /* short_help: -h */
    bool quiet, verbose, shows_progress, list;
    const char *color;
    size_t n_operands;
    const char **operands;
    command_id command;
    bool given[N_OPTIONS];   /* on the command line */
    const char *device_file; /* what --device named; NULL: none */
    char *device_text;       /* owns what it said */
    json_t *source;          /* owns the texts that options_adopt took */
} options;

typedef struct option_row {
    const char *name; /* "batch"; a single letter is written with one dash */
    option_kind kind;
    size_t offset;                   /* in options */
    unsigned commands;               /* bit k: command k takes it */
    const char *key;                 /* its name in a graph's options; NULL: it does not shape the graph */
    const char *argument;            /* as help shows it, "N" */
    const char *otherwise;           /* the default of a text or choice; NULL: none */
    int64_t least;                   /* COUNT */
    const char *(*choice)(size_t k); /* CHOICE: the k-th name, NULL past the end */
    bool (*also)(const char *name);  /* CHOICE: which others it takes; NULL: none */
    const char *others;              /* these, as an error names them */
    bool is_output;                  /* TEXT: a file that the command writes */
    bool for_experiments;            /* of use to tests and benches alone: help lists it last */
    const char *help;
} option_row;

extern const option_row option_rows[N_OPTIONS]; /* indexed by option_id */

/* Fills *o from the words after the command. On a mistake it complains and returns EXIT_USAGE (EXIT_NO without memory); release
 * with options_free in any case. */
int options_parse(command_id command, int argc, char **argv, options *o);
void options_free(options *o);
bool option_given(const options *o, option_id id);
/* Returns "--", or "-" for a name of one letter. */
const char *option_dashes(const option_row *row);
/* Of a CHOICE: the name that is meant, as the table spells it; NULL: it takes no such value. */
const char *option_taken(const option_row *row, const char *value);
