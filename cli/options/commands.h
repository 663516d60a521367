/* commands.h - the table of commands, from which dispatch, help and completion are derived. */
#pragma once

#include <stddef.h>

#include "cli/messages/messages.h"
#include "cli/options/options.h"

typedef struct command {
    const char *name;
    int (*run)(options *o);
    const char *operands; /* the names of the operands in the usage line: "MODEL PLAN" */
    /* the fewest and the most operands; -1: any number of operands, and no word is parsed as an option */
    int min_operands, max_operands;
    const char *summary;
    const char *example;
} command;

extern const command commands[N_COMMANDS]; /* indexed by command_id */

/* Returns the command with this name; NULL if there is none. */
const command *command_find(const char *name);
/* Returns the command with this name, like command_find. If there is none, prints an error that suggests the nearest name. */
const command *command_named(const char *name);

#define COMMAND(ID, name, ...) int cmd_##name(options *o);
#include "cli/options/commands.def"
#undef COMMAND
