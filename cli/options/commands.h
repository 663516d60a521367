/* commands.h - the table of commands. It is the source of dispatch, help and completion. */
#pragma once

#include <stddef.h>

#include "cli/messages/messages.h"
#include "cli/options/options.h"

typedef struct command {
    const char *name;
    int (*run)(options *o);
    const char *operands;           /* as shown in the usage line: "MODEL PLAN" */
    int min_operands, max_operands; /* fewest and most operands; -1: any number, and words are not parsed as options */
    const char *summary;
    const char *example;
} command;

extern const command commands[N_COMMANDS]; /* indexed by command_id */

/* Returns the command with this name; NULL if there is none. */
const command *command_find(const char *name);
/* Like command_find. If there is no such command, prints an error that suggests the nearest name. */
const command *command_named(const char *name);

#define COMMAND(ID, name, ...) int cmd_##name(options *o);
#include "cli/options/commands.def"
#undef COMMAND
