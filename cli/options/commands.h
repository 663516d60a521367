/* commands.h - the table of commands: dispatch, help and completion all come from it. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stddef.h>

#include "cli/options/options.h"

/* Exit statuses. */
enum {
    EXIT_DONE = 0,
    EXIT_NO = 1,   /* the answer is no, or the system failed (disk, memory) */
    EXIT_USAGE = 2 /* bad usage or bad input */
};

typedef struct command {
    const char *name;
    int (*run)(options *o);
    const char *operands;           /* as the usage line shows them: "MODEL PLAN" */
    int min_operands, max_operands; /* -1: any number, and no options are looked for */
    const char *summary;
    const char *example;
} command;

extern const command commands[N_COMMANDS]; /* indexed by command_id */

const command *command_find(const char *name); /* NULL: none */
/* The command whose name is closest to a mistyped one, NULL when none is close. */
const char *command_nearest(const char *name);

int cmd_estimate(options *o);
int cmd_plan(options *o);
int cmd_graph(options *o);
int cmd_check(options *o);
int cmd_pack(options *o);
int cmd_timeline(options *o);
int cmd_sweep(options *o);
int cmd_fit(options *o);
int cmd_draw(options *o);
int cmd_train(options *o);
int cmd_profile(options *o);
int cmd_ops(options *o);
int cmd_solvers(options *o);
int cmd_devices(options *o);
int cmd_help(options *o);
int cmd_version(options *o);
int cmd_complete(options *o);

#endif
