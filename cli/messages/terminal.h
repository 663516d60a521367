/* terminal.h - what a stream can show: how wide it is, whether a line on it may be written over, whether it takes colours. */
#pragma once

#include <stdbool.h>

/* Columns of the terminal behind a descriptor; what COLUMNS says where that is not known, and 80 without it. */
int terminal_width(int fd);
/* Whether a line can be written over: a terminal, and TERM does not say that it is a dumb one. */
bool terminal_rewrites(int fd);

/* --color: "always", "never", or "auto": on a terminal that is not dumb, unless NO_COLOR is set. */
bool terminal_takes_color(int fd, const char *when);

/* Puts one line in place of the one the cursor is in: cut so that it does not wrap. */
void terminal_line(int fd, const char *text);
/* Leaves the line empty. */
void terminal_clear(int fd);
