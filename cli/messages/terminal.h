/* terminal.h - the capabilities of a terminal: its width, overwriting of a line, and colours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns the columns of the terminal of a descriptor. If unknown: the value of COLUMNS, or 80. */
int terminal_width(int fd);
/* True if a line can be overwritten: the descriptor is a terminal, and TERM is not "dumb". */
bool terminal_rewrites(int fd);

/* True if the stream should be coloured, for --color "always", "never" or "auto" (on a terminal that is not dumb, unless
 * NO_COLOR is set). */
bool terminal_takes_color(int fd, const char *when);

/* Returns how many bytes of a text fit in the given number of columns. Continuation bytes of UTF-8 characters have no column.
 */
size_t terminal_fitting(const char *text, int columns);

/* Replaces the text of the current line. A text wider than the terminal is truncated, so that it does not wrap. */
void terminal_line(int fd, const char *text);
/* Clears the text of the current line. */
void terminal_clear(int fd);
