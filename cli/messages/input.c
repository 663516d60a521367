/* input.c - copies standard input to a temporary file without a name. */
#include "cli/messages/input.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/messages/messages.h"

int input_keep(void)
{
    struct stat info;
    char bytes[1 << 16];
    ssize_t n = 0;
    if (fstat(STDIN_FILENO, &info) == 0 && S_ISREG(info.st_mode)) return EXIT_DONE;
    if (isatty(STDIN_FILENO)) return usage_error("- reads standard input, which is empty; run memplan COMMAND - < FILE");
    FILE *kept = tmpfile();
    bool ok = kept;
    while (ok && (n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0) ok = fwrite(bytes, 1, (size_t)n, kept) == (size_t)n;
    ok = ok && n == 0 && fflush(kept) == 0 && dup2(fileno(kept), STDIN_FILENO) >= 0;
    if (kept) (void)fclose(kept);
    if (!ok) complain("standard input cannot be copied to a temporary file");
    return ok ? EXIT_DONE : EXIT_NO;
}

char input_kind(void)
{
    char text[64];
    ssize_t n = pread(STDIN_FILENO, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *at = text;
    while (isspace((unsigned char)*at)) at++;
    if (*at == '{') return 'j';
    return !strncmp(at, "digraph", 7) || !strncmp(at, "strict", 6) || !strncmp(at, "graph", 5) || !strncmp(at, "//", 2) ||
                   !strncmp(at, "/*", 2)
               ? 'd'
               : 'o';
}
