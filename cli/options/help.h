/* help.h - what the tables of commands and options say for people. */
#pragma once

#include <stdio.h>

#include "cli/options/commands.h"

void help_overview(FILE *to);
void help_command(FILE *to, const command *c);
/* Prints the short help of -h: what a beginner needs. */
void help_command_short(FILE *to, const command *c);

/* True if the command takes the option; shared with manual.c. */
bool help_takes(const command *c, const option_row *row);
/* Returns "; one of a, b (default: a)" with `quote` around each name, as mp_text does; "" if the option is no choice. */
const char *help_choices(const option_row *row, const char *quote);
/* Prints words up to so many columns, and ends the line. The first line begins at the cursor, in `column`, the others
 * at `indent`. */
void help_wrap(FILE *to, const char *text, int indent, int column, int columns);
