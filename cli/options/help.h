/* help.h - what the tables of commands and options say for people. */
#pragma once

#include <stdio.h>

#include "cli/options/commands.h"

void help_overview(FILE *to);
void help_command(FILE *to, const command *c);
/* -h: what one needs first. */
void help_command_short(FILE *to, const command *c);
