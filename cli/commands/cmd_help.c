/* cmd_help.c - the commands help, version and complete. Their output is generated from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "cli/reports/report.h"

int cmd_help(options *o)
{
    if (!o->n_operands) {
        help_overview(stdout);
        return EXIT_DONE;
    }
    const command *c = command_named(o->operands[0]);
    if (c) help_command(stdout, c);
    return c ? EXIT_DONE : EXIT_USAGE;
}

int cmd_version(options *o)
{
    if (o->talk.json) return print_json("version", json_pack("{s:s}", "memplan", MEMPLAN_VERSION));
    puts("memplan " MEMPLAN_VERSION);
    return EXIT_DONE;
}

static void offer(const char *prefix, const char *dashes, const char *name)
{
    size_t skip = strlen(dashes);
    if (strncmp(prefix, dashes, skip < strlen(prefix) ? skip : strlen(prefix))) return;
    if (strlen(prefix) > skip && strncmp(prefix + skip, name, strlen(prefix) - skip)) return;
    print("%s%s\n", dashes, name);
}

/* Completes a command line. The operands are the words after `memplan`, of which the last may be incomplete. If a file name is
 * expected, prints nothing. */
int cmd_complete(options *o)
{
    size_t n = o->n_operands;
    const char *word = n ? o->operands[n - 1] : "", *before = n > 1 ? o->operands[n - 2] : "";
    if (n <= 1) {
        for (size_t k = 0; k < N_COMMANDS; k++) offer(word, "", commands[k].name);
        return EXIT_DONE;
    }
    const command *c = command_find(o->operands[0]);
    if (!c) return EXIT_DONE;
    if (c->run == cmd_help)
        for (size_t k = 0; k < N_COMMANDS; k++) offer(word, "", commands[k].name);
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *row = &option_rows[k];
        if (!(row->commands >> (c - commands) & 1)) continue;
        if (*word == '-')
            offer(word, row->name[1] ? "--" : "-", row->name);
        else if (row->choice && !strncmp(before, "--", 2) && !strcmp(before + 2, row->name))
            for (size_t i = 0; row->choice(i); i++) offer(word, "", row->choice(i));
    }
    return EXIT_DONE;
}
