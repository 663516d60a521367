/* help.h - help texts, which are generated from the tables of commands and options. */
#pragma once

#include <stdio.h>

#include "cli/options/commands.h"

void help_overview(FILE *to);
void help_command(FILE *to, const command *c);
/* Prints the common options only. If the command has no common options, or few others, prints all. */
void help_command_short(FILE *to, const command *c);

/* True if the command accepts the option. Also used by manual.c. */
bool help_takes(const command *c, const mp_option_row *row);
/* Returns "; one of a, b (default: a)", with `quote` before and after each name. Returns "" if the option has no fixed choices.
 * mp_text allocates the result. */
const char *help_choices(const mp_option_row *row, const char *quote);
/* Prints words, wrapped at the column `columns`, and ends the line. `column` is the column at which the output so far has
 * ended. Further lines begin at the column `indent`. */
void help_wrap(FILE *to, const char *text, int indent, int column, int columns);
