/* help.c - the tables of commands and options as text for a terminal. */
#include "cli/options/help.h"

#include <string.h>

void help_overview(FILE *to)
{
    fputs("memplan - how much memory a training step needs, and what to recompute to need less\n\n"
          "usage: memplan COMMAND ...\n\n",
          to);
    for (size_t k = 0; k < N_COMMANDS; k++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", commands[k].name, commands[k].operands);
        fprintf(to, "  %-20s %s\n", usage, commands[k].summary);
    }
    fputs("\nMODEL is an ONNX file, or a training graph: one that 'memplan graph' wrote (its name ends in .json),\nor one in "
          "Graphviz's DOT (.dot, .gv).\n"
          "'memplan help COMMAND' lists the options of a command.\n"
          "Exit status: 0 done; 1 the answer is no, or the system failed; 2 bad usage or bad input;\n130 stopped by Ctrl-C "
          "before there was an answer.\n",
          to);
}

static void help_option(FILE *to, const option_row *row)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s%s", row->name[1] ? "--" : "-", row->name, row->argument ? " " : "",
             row->argument ? row->argument : "");
    fprintf(to, "  %-24s %s", left, row->help);
    if (row->choice) {
        fputs("\n                           ", to);
        for (size_t k = 0; row->choice(k); k++) fprintf(to, "%s%s", k ? ", " : "one of ", row->choice(k));
        fprintf(to, " (default: %s)", row->otherwise);
    }
    fputc('\n', to);
}

/* Those that the row says are for experiments, or the others; `heading` goes before the first. */
static void help_options(FILE *to, const command *c, bool for_experiments, const char *heading)
{
    for (int k = 0; k < N_OPTIONS; k++) {
        const option_row *row = &option_rows[k];
        if (!(row->commands >> (c - commands) & 1) || row->for_experiments != for_experiments) continue;
        fputs(heading, to);
        heading = "";
        help_option(to, row);
    }
}

void help_command(FILE *to, const command *c)
{
    bool any = c->max_operands >= 0;
    fprintf(to, "usage: memplan %s%s%s%s\n\n%s\n\noptions:\n", c->name, *c->operands ? " " : "", c->operands,
            any ? " [OPTION...]" : "", c->summary);
    help_options(to, c, false, "");
    help_options(to, c, true, "for experiments:\n");
    fprintf(to, "\nexample:\n  %s\n", c->example);
}
