/* commands.c - the table of commands, and the search for a row by name. */
#include "cli/options/commands.h"

#include <string.h>

#include "formats/base/nearest.h"

_Static_assert(N_COMMANDS <= 32, "an option's row names its commands by the bits of an unsigned");

#define COMMAND(ID, word, ...) [CMD_##ID] = {#word, cmd_##word, __VA_ARGS__},
const command commands[N_COMMANDS] = {
#include "cli/options/commands.def"
};
#undef COMMAND

const command *command_find(const char *name)
{
    for (size_t k = 0; k < N_COMMANDS; k++)
        if (!strcmp(commands[k].name, name)) return &commands[k];
    return NULL;
}

const command *command_named(const char *name)
{
    const command *found = command_find(name);
    mp_nearest n = mp_nearest_to(name);
    for (size_t k = 0; k < N_COMMANDS; k++) mp_nearest_offer(&n, commands[k].name);
    if (!found && mp_nearest_found(&n))
        complain("there is no command '%s'; did you mean '%s'?", name, mp_nearest_found(&n));
    else if (!found)
        complain("there is no command '%s'; 'memplan help' lists them", name);
    return found;
}
