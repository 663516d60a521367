/* igraph_streams.c - igraph's static library inside a shared one.
 *
 * The shared library of igraph needs LAPACK, libxml2 and the tables of ICU, some 60 MB of which the wheel's library calls
 * nothing. The static one is compiled for programs, and reaches stdout and stderr as only a program can. Linked with
 * --wrap=stdout,--wrap=stderr it finds these variables in their place.
 */
#include <stdio.h>

extern FILE *__real_stdout, *__real_stderr;
__attribute__((visibility("hidden"))) FILE *__wrap_stdout, *__wrap_stderr;

__attribute__((constructor)) static void open_streams(void)
{
    __wrap_stdout = __real_stdout;
    __wrap_stderr = __real_stderr;
}
