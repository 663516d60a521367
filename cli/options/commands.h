/* commands.h - the table of commands: dispatch, help and completion all come from it. */
#pragma once

#include <stddef.h>

#include "cli/messages/messages.h"
#include "cli/options/options.h"

typedef struct command {
    const char *name;
    int (*run)(options *o);
    const char *operands;           /* as the usage line shows them: "MODEL PLAN" */
    int min_operands, max_operands; /* -1: any number, and no options are looked for */
    const char *summary;
    const char *example;
} command;

extern const command commands[N_COMMANDS]; /* indexed by command_id */

/* Returns the command of this name. NULL if there is none. */
const command *command_find(const char *name);
/* As command_find, with a complaint if there is none that names the closest command. */
const command *command_named(const char *name);

#define COMMAND(ID, name, ...) int cmd_##name(options *o);
#include "cli/options/commands.def"
#undef COMMAND
