/* screen.h - prints an answer on standard output. On a terminal, lists are truncated to its width, rows and sentences are
 * wrapped, and the verdict is coloured. In a pipe, rows are not wrapped and sentences are wrapped at 80 columns, so that an
 * answer has the same bytes everywhere. */
#pragma once

/* Prints a list of names on one line. If the list is wider than the terminal, it is truncated and ends in "...". */
void screen_list(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a row of a table. If the row is wider than the terminal, it continues on the next line, indented below the end of the
 * line above. */
void screen_row(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a sentence and wraps it between words. All lines except the first are indented by `indent` columns. */
void screen_text(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a sentence as the verdict of an answer. Its colour depends on the mood (good, bad). `color` is the value of
 * --color. */
typedef enum screen_mood { SCREEN_PLAIN, SCREEN_GOOD, SCREEN_BAD, SCREEN_OPEN } screen_mood;
void screen_verdict(const char *color, screen_mood mood, const char *format, ...) __attribute__((format(printf, 3, 4)));
void screen_keep_verdicts_whole(void); /* after this call, a verdict is printed on one line and is not wrapped */
