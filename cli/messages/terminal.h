/* terminal.h - the capabilities of a terminal: its width, overwriting of a line, and colours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns the number of columns of the terminal with this descriptor. If unknown, returns the value of COLUMNS, or 80. */
int terminal_width(int fd);
/* True if the terminal can overwrite a line: the descriptor is a terminal, and TERM is not "dumb". */
bool terminal_rewrites(int fd);

/* True if the output to a stream should be coloured. `--color` is "always", "never" or "auto". "auto" means: on a terminal that
 * is not dumb, unless NO_COLOR is set. */
bool terminal_takes_color(int fd, const char *when);

/* Returns how many bytes of a text fit in a number of columns. A UTF-8 character has one column, so its continuation bytes do
 * not count. */
size_t terminal_fitting(const char *text, int columns);

/* Replaces the text of the current line of the terminal. A text that is wider than the terminal is truncated, so that it stays
 * on one line. */
void terminal_line(int fd, const char *text);
/* Clears the current line of the terminal. */
void terminal_clear(int fd);
