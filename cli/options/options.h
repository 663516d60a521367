/* options.h - the options of a command. A single table lists all options, the commands that accept them, and the fields that
 * store their values. The table also marks the options that shape a training graph. They are stored in the graph, so that the
 * graph can be built again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/workload/option_rows.h"
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

/* The options, grouped by the code that reads them. Texts point into argv, or into the JSON from which they were adopted. If an
 * option is not given, a text is NULL and a number is 0, unless the table has a default. */

/* Options of the search for a plan. */
typedef struct search_options {
    /* values of --budget (commands plan and train), --budgets (sweep) and --memory (fit and parallel) */
    const char *budget, *budgets, *memory;
    int64_t reserve;          /* the value of --reserve in bytes; only valid if the option was given */
    const char *mode, *goal;  /* options of the command share */
    int64_t micro_batch_size; /* samples per micro-batch */
    mp_mesh explain;          /* --explain of the command parallel: the mesh to be explained; all sizes 0: none */
    int64_t devices, global_batch;
    const char *checkpoints, *solver, *solvers, *effort, *granularity, *without, *overhead;
    double gap;          /* --gap: the search ends when the plan is this close to the bound, as a fraction of a step's time */
    int64_t seed, moves; /* moves 0: the searcher's default */
    double time_limit;   /* seconds */
    double begun;        /* time at which the program started, by mp_clock_now() */
    bool keep_order, offsets, explain_bound, prove_bound;
} search_options;

/* Options of a training. */
typedef struct training_options {
    mp_text_list test;
    const char *steps_each; /* steps per job, for share */
    int64_t steps, warmup, save_every;
    double lr, momentum, weight_decay, timeout;
    const char *lr_schedule, *save, *resume, *trace, *columns_in;
    bool runs; /* --run, for share */
    bool nesterov, random_weights, before, captures, profile;
} training_options;

/* Options of a command's output: the output file, its format, and the parts of the answer to be shown. */
typedef struct output_options {
    mp_text_list links; /* the links that profile measures */
    const char *out, *format, *plan, *capacity, *view, *framework, *sort;
    int64_t depth, top;
    bool training, curve, minimize, per_op, csv, network;
} output_options;

/* Options of the printed answer. */
typedef struct talk_options {
    const char *color;
    bool json, quiet, verbose, list, shows_progress, help;
    /* true: the workload is loaded again for a comparison, so its notes are not repeated. Set by commands, not by an option */
    bool hides_notes;
    /* true: the notes about graphs omit the accuracy of seconds, because the command states it once */
    bool hides_accuracy;
} talk_options;

typedef struct options {
    mp_workload_options model; /* the settings of the workload, which come first in the table */
    search_options search;
    training_options training;
    output_options output;
    talk_options talk;
    size_t n_operands;
    const char **operands;
    command_id command;
    bool given[N_OPTIONS];   /* per option: true if the option is on the command line */
    const char *device_file; /* the file that --device named; NULL: it named no file */
    char *device_text;       /* the device as text, read from device_file; owned by this struct */
} options;

extern const mp_option_row option_rows[N_OPTIONS]; /* indexed by option_id */

/* Parses the words after the command and stores the options in *o. On an error it prints a message and returns EXIT_USAGE
 * (EXIT_NO if out of memory). Release with options_free in any case. */
int options_parse(command_id command, int argc, char **argv, options *o);
void options_free(options *o);
/* Called if --device was given, so that the answer is about the memory of this device. If the device is a card (a GPU by name),
 * sets PyTorch's rules, because PyTorch usually trains on cards; memplan's executor trains on cpu and cuda. Does not change the
 * rules if --rules is given or if the command itself trains. */
void options_take_card(options *o);
/* True if the last operand of a request for help is "all": help then lists all options, not only the common ones. */
bool options_ask_for_all_help(const options *o);
/* Returns the present name of a searcher. For a name of earlier releases it prints a notice. Returns unknown names unchanged.
 */
const char *solver_present_name(const char *name);
/* True if the option was given on the command line. */
bool option_given(const options *o, option_id id);
/* Returns the dashes of an option: "-" for a one-letter name, otherwise "--". */
const char *option_dashes(const mp_option_row *row);
