/* exhausted.c - ends the program if memory runs out in a library that cannot report it. These are oneDNN, GLib and Graphviz,
 * and also jansson, because many calls of jansson are not checked. */
#include "cli/exhausted.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "formats/base/process.h"

/* Ends the program without flushing buffers, so that no incomplete answer is printed. */
static void end(const char *sentence)
{
    const ssize_t unused = write(STDERR_FILENO, sentence, strlen(sentence));
    (void)unused;
    _exit(EXIT_NO);
}

static void *get(size_t size)
{
    void *p = malloc(size);
    if (!p) end("memplan: out of memory\n");
    return p;
}

static void on_end(int signal)
{
    (void)signal;
    end("memplan: a library ended the program, as it does when memory runs out\n");
}

static struct sigaction old_crash;

static void on_crash(int signal)
{
    if (mp_library_works) end("memplan: a library crashed, as it does when memory runs out\n");
    /* restores the signal's default action, so that the crash ends the process when the handler returns */
    sigaction(signal, &old_crash, NULL);
}

void exhausted_catch(void)
{
    const struct sigaction action = {.sa_handler = on_end};
    /* a separate stack for the handler, because GLib may also crash by endless recursion, which leaves no stack */
    static char stack[1 << 14];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    const struct sigaction crash = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    json_set_alloc_funcs(get, free);
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &crash, &old_crash);
}
