/* terminal.c - finds the width of the terminal and whether it has colours. Prints a status line that each new text
 * overwrites. */
#include "cli/messages/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/messages/launcher.h"
#include "estimator/base/visible_text.h"

enum { WIDTH = 80, WIDTH_MAX = 1000, LEAST = 2 };

int terminal_width(int fd)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    int width = 0;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width < LEAST && columns) width = (int)strtol(columns, NULL, 10);
    if (width < LEAST) width = WIDTH;
    return width < WIDTH_MAX ? width : WIDTH_MAX;
}

bool terminal_rewrites(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && !(term && !strcmp(term, "dumb"));
}

bool terminal_takes_color(int fd, const char *when)
{
    const char *no = getenv("NO_COLOR");
    if (!strcmp(when, "always")) return true;
    /* a launcher runs ranks on a pseudo-terminal, even if the launcher's own output is no terminal */
    return !strcmp(when, "auto") && !(no && *no) && launcher_rank() < 0 && terminal_rewrites(fd);
}

/* Writes a text, if possible by one system call, so that a signal handler cannot write between its parts. */
static void put(int fd, const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(fd, text, n);
        if (written <= 0) return;
        text += written;
        n -= (size_t)written;
    }
}

size_t terminal_fitting(const char *text, int columns)
{
    size_t n = 0;
    for (int used = 0; text[n]; n++) {
        used += ((unsigned char)text[n] & 0xC0) != 0x80;
        if (used > columns) break;
    }
    return n;
}

void terminal_line(int fd, const char *text)
{
    static const char clear[] = "\r\033[K";
    char line[sizeof clear + 4 * WIDTH_MAX], shown[sizeof line];
    text = mp_visible_text(text, shown, sizeof shown);
    size_t n = terminal_fitting(text, terminal_width(fd) - 1);
    if (n > sizeof line - sizeof clear) n = sizeof line - sizeof clear;
    memcpy(line, clear, sizeof clear - 1);
    memcpy(line + sizeof clear - 1, text, n);
    put(fd, line, sizeof clear - 1 + n);
}

void terminal_clear(int fd)
{
    terminal_line(fd, "");
}
