/* terminal.h - what a stream can show: how wide it is, whether a line on it may be written over, whether it takes colours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns the columns of the terminal behind a descriptor; if they are not known, what COLUMNS says, else 80. */
int terminal_width(int fd);
/* True if a line can be written over: it is a terminal, and TERM does not say that it is a dumb one. */
bool terminal_rewrites(int fd);

/* True if the stream takes colours, for --color "always", "never", or "auto" (yes on a terminal that is not dumb, unless
 * NO_COLOR is set). */
bool terminal_takes_color(int fd, const char *when);

/* Returns how many bytes of a text fit so many columns: a byte that continues a character of UTF-8 takes none. */
size_t terminal_fitting(const char *text, int columns);

/* Puts one line in place of the one the cursor is in: cut so that it does not wrap. */
void terminal_line(int fd, const char *text);
/* Clears that line. */
void terminal_clear(int fd);
