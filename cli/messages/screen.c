/* screen.c - truncates and wraps lines to the width of the terminal. */
#include "cli/messages/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/print.h"
#include "cli/messages/terminal.h"

enum { TEXT_MAX = 4096, PIPE_WIDTH = 80, WIDEST_TEXT = 100 };

/* Returns the number of terminal columns of a text of n bytes. A UTF-8 character has one column, so its continuation bytes do
 * not count. */
static int columns_of(const char *text, size_t n)
{
    int columns = 0;
    for (size_t k = 0; k < n; k++) columns += ((unsigned char)text[k] & 0xC0) != 0x80;
    return columns;
}

void screen_list(const char *format, ...)
{
    static const char more[] = "...";
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    print_text(text, sizeof text, format, args);
    va_end(args);
    const int width = isatty(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : TEXT_MAX;
    if (!text[terminal_fitting(text, width)]) {
        puts(text);
        return;
    }
    const size_t kept = terminal_fitting(text, width - (int)sizeof more + 1);
    printf("%.*s%.*s\n", (int)kept, text, width, more);
}

/* Returns the index at which to break a row that has more than `width` columns. It is after the last gap between two cells. If
 * there is none, it is between two words, and otherwise anywhere. */
static size_t row_break(const char *text, int width)
{
    const size_t most = terminal_fitting(text, width), indent = strspn(text, " ");
    for (size_t k = most; k > indent; k--)
        if (text[k] != ' ' && text[k - 1] == ' ' && text[k - 2] == ' ') return k;
    for (size_t k = most; k > indent; k--)
        if (text[k] != ' ' && text[k - 1] == ' ') return k;
    return most;
}

void screen_row(const char *format, ...)
{
    /* a row that is too long continues on the next line, moved to the left by the terminal's width less CELL columns. The
     * continued cells are then below the end of the first line, and cells of several rows stay aligned */
    enum { CELL = 24 };
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    print_text(text, sizeof text, format, args);
    va_end(args);
    const int width = isatty(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : TEXT_MAX;
    const int moved = width > 2 * CELL ? width - CELL : width / 2;
    const char *rest = text;
    int indent = 0;
    while (rest[terminal_fitting(rest, width - indent)]) {
        const size_t kept = row_break(rest, width - indent);
        size_t shown = kept;
        while (shown && rest[shown - 1] == ' ') shown--;
        printf("%*s%.*s\n", indent, "", (int)shown, rest);
        indent += columns_of(rest, kept) - moved;
        if (indent < 4 || indent > width / 2) indent = width > 8 ? 4 : 0;
        rest += kept;
    }
    printf("%*s%s\n", indent, "", rest);
}

static bool whole_verdicts;

void screen_keep_verdicts_whole(void)
{
    whole_verdicts = true;
}

/* Prints words, and begins a new line when the line is full. A word that is longer than a line is printed whole in a pipe, and
 * is truncated on a terminal. */
static void print_words(const char *text, int indent)
{
    int width = PIPE_WIDTH, at = (int)strspn(text, " "), blanks = 0;
    if (isatty(STDOUT_FILENO)) width = terminal_width(STDOUT_FILENO);
    if (width > WIDEST_TEXT) width = WIDEST_TEXT;
    printf("%.*s", at, text);
    for (const char *word = text + at; *word;) {
        const size_t n = strcspn(word, " ");
        const int columns = columns_of(word, n);
        if (blanks && at + blanks + columns > width) {
            printf("\n%*s", indent, "");
            at = indent;
        } else {
            printf("%*s", blanks, "");
            at += blanks;
        }
        printf("%.*s", (int)n, word);
        at += columns;
        blanks = (int)strspn(word + n, " ");
        word += n + (size_t)blanks;
    }
}

void screen_text(int indent, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    print_text(text, sizeof text, format, args);
    va_end(args);
    print_words(text, indent);
    putchar('\n');
}

void screen_verdict(const char *color, screen_mood mood, const char *format, ...)
{
    static const char *const codes[] = {"\033[1m", "\033[1;32m", "\033[1;31m", "\033[1;33m"};
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    print_text(text, sizeof text, format, args);
    va_end(args);
    const int colored = terminal_takes_color(STDOUT_FILENO, color);
    if (colored) fputs(codes[mood], stdout);
    if (whole_verdicts)
        fputs(text, stdout);
    else
        print_words(text, 0);
    if (colored) fputs("\033[0m", stdout);
    putchar('\n');
}
