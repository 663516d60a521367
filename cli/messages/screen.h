/* screen.h - prints an answer on standard output. On a terminal, lists are truncated to its width, rows and sentences wrap,
 * and the verdict is coloured. In a pipe, rows are complete and sentences wrap at 80 columns, so that the same answer has the
 * same bytes everywhere. */
#pragma once

/* Prints a list of names on one line. If the line is longer than the terminal's width, it is truncated and ends in "...". */
void screen_list(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a row of a table. If it is longer than the terminal's width, it continues in the next line, below its end. */
void screen_row(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a sentence, wrapped between words. All lines except the first are indented by `indent` columns. */
void screen_text(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a sentence as the verdict of an answer, in the colour of its mood (good, bad). `color` is the value of --color. */
typedef enum screen_mood { SCREEN_PLAIN, SCREEN_GOOD, SCREEN_BAD, SCREEN_OPEN } screen_mood;
void screen_verdict(const char *color, screen_mood mood, const char *format, ...) __attribute__((format(printf, 3, 4)));
void screen_keep_verdicts_whole(void); /* from this call on, verdicts are printed on one line */
