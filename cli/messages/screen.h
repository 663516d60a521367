/* screen.h - an answer on standard output. On a terminal rows are cut to its width, sentences wrap between words, and
 * the verdict has a colour. In a pipe rows are whole, sentences are broken at 80 columns, and the same answer gives the
 * same bytes. */
#pragma once

/* Prints one line, cut to the terminal's width where it is longer ("..." at its end). */
void screen_row(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a sentence, broken between words; all lines but the first are indented by so many columns. */
void screen_text(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a sentence as the verdict, in the colour of its mood; `color` is the argument of --color. */
typedef enum screen_mood { SCREEN_PLAIN, SCREEN_GOOD, SCREEN_BAD, SCREEN_OPEN } screen_mood;
void screen_verdict(const char *color, screen_mood mood, const char *format, ...) __attribute__((format(printf, 3, 4)));
void screen_keep_verdicts_whole(void); /* from here on verdicts are printed on one line */
