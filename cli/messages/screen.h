/* screen.h - an answer on standard output. On a terminal, lists are truncated to its width, rows and sentences wrap, and
 * the verdict is coloured. In a pipe, rows are complete, sentences wrap at 80 columns, and the same answer yields the same
 * bytes. */
#pragma once

/* Prints names in one line. If it is longer than the terminal's width, it is truncated and ends in "...". */
void screen_list(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a row of a table. If it is longer than the terminal's width, it continues in the next line, below its end. */
void screen_row(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a sentence, wrapped between words. All lines except the first are indented by `indent` columns. */
void screen_text(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a sentence as the verdict, in the colour of its mood. `color` is the argument of --color. */
typedef enum screen_mood { SCREEN_PLAIN, SCREEN_GOOD, SCREEN_BAD, SCREEN_OPEN } screen_mood;
void screen_verdict(const char *color, screen_mood mood, const char *format, ...) __attribute__((format(printf, 3, 4)));
void screen_keep_verdicts_whole(void); /* from this call on, verdicts are printed on one line */
