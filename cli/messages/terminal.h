/* terminal.h - what a terminal can show: its width, whether a line can be overwritten, whether it takes colours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns the columns of the terminal behind a descriptor; if unknown, the value of COLUMNS, else 80. */
int terminal_width(int fd);
/* True if a line can be overwritten: the descriptor is a terminal, and TERM does not say that it is dumb. */
bool terminal_rewrites(int fd);

/* True if the stream takes colours, for --color "always", "never", or "auto" (yes on a terminal that is not dumb, unless
 * NO_COLOR is set). */
bool terminal_takes_color(int fd, const char *when);

/* Returns how many bytes of a text fit so many columns: a byte that continues a UTF-8 character takes no column. */
size_t terminal_fitting(const char *text, int columns);

/* Replaces the line of the cursor by one that is cut so that it does not wrap. */
void terminal_line(int fd, const char *text);
/* Clears the line of the cursor. */
void terminal_clear(int fd);
